"""A pattern may match nothing; a path that does not exist is a mistake."""

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.entity_choice import chosen_entities
from twinbus.cli.failure import Failure

BOTH = [{"path": "Orders"}, {"path": "archive"}]


def test_patterns_and_paths_choose() -> None:
    assert chosen_entities(BOTH, []) == BOTH
    assert chosen_entities(BOTH, ["orders"]) == BOTH[:1]
    assert chosen_entities(BOTH, ["a*", "x*"]) == BOTH[1:]
    assert chosen_entities(BOTH, ["*e*"]) == BOTH


def test_path_that_does_not_exist_is_named() -> None:
    with pytest.raises(
        Failure, match=r"no entity 'ordres'.*Did you mean 'Orders'"
    ) as it:
        chosen_entities(BOTH, ["a*", "ordres"])
    assert it.value.exit_code == exit_codes.NOT_FOUND

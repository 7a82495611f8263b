"""The transition tables: all states can be reached, none is a dead end by mistake."""

from enum import Enum
from typing import Any

import pytest

from twinbus.amqp.state import (
    CONNECTION,
    LINK,
    SESSION,
    ConnectionState,
    LinkState,
    SessionState,
)


@pytest.mark.parametrize(
    ("table", "states", "start", "final"),
    [
        (CONNECTION, ConnectionState, ConnectionState.START, ConnectionState.END),
        (SESSION, SessionState, SessionState.UNMAPPED, SessionState.ENDED),
        (LINK, LinkState, LinkState.UNATTACHED, LinkState.DETACHED),
    ],
)
def test_every_state_is_reached_and_only_the_last_one_ends(
    table: dict[tuple[Any, Any], Any], states: type[Enum], start: Enum, final: Enum
) -> None:
    assert {start, *table.values()} == set(states)
    assert {state for state, _ in table} == set(states) - {final}

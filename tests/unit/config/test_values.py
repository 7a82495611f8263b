"""Values of settings: what each kind accepts, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from twinbus.config.values import (
    ValueKind,
    duration,
    folder,
    one_of,
    switch,
    text,
    whole_number,
)

PERCENT = whole_number(0, 100)
LEVEL = one_of(("low", "high"))
MINUTES = duration(60_000, 3_600_000)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (PERCENT, 0, 0),
        (PERCENT, "100", 100),
        (text(), "", ""),
        (text(), Path("a"), "a"),
        (folder(), "a/b", Path("a/b")),
        (LEVEL, "high", "high"),
        (LEVEL, "HIGH", "HIGH"),
        (MINUTES, "PT1M", "PT1M"),
        (MINUTES, "1h", "1h"),
        (switch(), True, True),
        (switch(), "1", True),
        (switch(), "False", False),
    ],
)
def test_values_are_read(kind: ValueKind[Any], given: object, value: object) -> None:
    assert kind.read(given) == value


@pytest.mark.parametrize(
    ("kind", "given", "complaint"),
    [
        (PERCENT, -1, "-1 is not from 0 to 100"),
        (PERCENT, 101, "101 is not from 0 to 100"),
        (PERCENT, True, "True is not a whole number"),
        (PERCENT, 1.0, "1.0 is not a whole number"),
        (text(), 5, "5 is not a text"),
        (text(may_be_empty=False), "", "is empty"),
        (folder(), "", "is empty"),
        (LEVEL, "middle", "'middle' is none of low, high"),
        (LEVEL, 1, "1 is not a text"),
        (MINUTES, "59s", "'59s' is not from 1m to 1h"),
        (MINUTES, "61m", "'61m' is not from 1m to 1h"),
        (MINUTES, "unlimited", "'unlimited' is not from 1m to 1h"),
        (MINUTES, "long", "'long' is not a duration"),
        (switch(), "yes", "'yes' is neither true nor false"),
    ],
)
def test_other_values_are_refused(
    kind: ValueKind[Any], given: object, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        kind.read(given)


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (PERCENT, "0 to 100"),
        (text(), ""),
        (LEVEL, "`low`, `high`"),
        (MINUTES, "`1m` to `1h`"),
        (switch(), "`true`, `false`"),
    ],
)
def test_kinds_say_what_they_allow(kind: ValueKind[Any], allowed: str) -> None:
    assert kind.allowed == allowed

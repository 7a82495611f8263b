"""The path that was meant is found by its end, or by its letters."""

import pytest

from twinbus.cli.similar_paths import meant_instead

KNOWN = (
    *("Orders", "archive", "events"),
    *("events/Subscriptions/audit", "events/Subscriptions/billing"),
    *("prices/Subscriptions/audit", "prices/Subscriptions/all"),
)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("ordres", "Orders"),
        ("event", "events"),
        ("billing", "events/Subscriptions/billing"),
        ("events/audit", "events/Subscriptions/audit"),
        ("prices/subscription/audit", "prices/Subscriptions/audit"),
        ("prices/al", "prices/Subscriptions/all"),
    ],
)
def test_similar_path_is_named(path: str, meant: str) -> None:
    assert meant_instead(path, KNOWN) == f"Did you mean '{meant}'?"


@pytest.mark.parametrize("path", ["zzz", "", "audit"])
def test_nothing_is_guessed(path: str) -> None:
    """Two subscriptions are called audit."""
    assert meant_instead(path, KNOWN) == ""

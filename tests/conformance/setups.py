"""The set-ups that the cases run on.

    one          one SQLite store: what everybody starts with
    postgres     one PostgreSQL store
    partitioned  every queue and topic has 16 fragments in four SQLite stores
    brokers      `twinbus serve --brokers 3`, with three SQLite stores

Each case runs on one set-up, `one` or that of the variable TWINBUS_TEST_SETUP. Without
the variable, cases with the mark `setups` run on all that it names. The mark `differs`
names the set-ups that a case does not hold for, the row of the requirements that says
so, and why; there it is skipped with these words.
"""

import os
import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from twinbus.testing import Bus

from .brokers_bus import BrokersBus

VARIABLE = "TWINBUS_TEST_SETUP"
ONE = "one"
POSTGRES = "postgres"
PARTITIONED = "partitioned"
BROKERS = "brokers"
SETUPS = (ONE, POSTGRES, PARTITIONED, BROKERS)

everywhere = pytest.mark.setups(*SETUPS)
"""For a few cases: each module of them starts a bus on every set-up."""

in_order = pytest.mark.differs(
    PARTITIONED, row="T6", why="without a key, messages have no order over fragments"
)
own_numbers = pytest.mark.differs(
    PARTITIONED, row="T15", why="a sequence number carries the number of the fragment"
)
mixed_batch = pytest.mark.differs(
    PARTITIONED, row="T3", why="all messages of a batch go to the fragment of one key"
)
own_size = pytest.mark.differs(
    PARTITIONED, row="T7", why="the size counts for each fragment"
)

_STORES = 4
# The cases make more entities than a namespace may have partitioned ones.
_PARTITIONED = {"partition_all": True, "max_partitioned_entities": 10_000}


def chosen_setup() -> str:
    """Of the cases without a mark. Raises UsageError."""
    name = os.environ.get(VARIABLE) or ONE
    if name not in SETUPS:
        raise pytest.UsageError(f"{VARIABLE} is {name!r}: use one of {SETUPS}")
    return name


def setups_of(item: Any) -> tuple[str, ...]:
    """The set-ups that a case runs on."""
    marked = item.get_closest_marker("setups")
    if marked is None or os.environ.get(VARIABLE):
        return (chosen_setup(),)
    return tuple(marked.args)


def why_it_differs(item: pytest.Item) -> str:
    """Why the case does not hold on its set-up; empty: it does."""
    callspec = getattr(item, "callspec", None)
    setup = (callspec.params if callspec else {}).get("setup", chosen_setup())
    for mark in item.iter_markers("differs"):
        if setup in mark.args:
            return f"{setup}, {mark.kwargs['row']}: {mark.kwargs['why']}"
    return ""


def bus_on(
    request: pytest.FixtureRequest,
    setup: str,
    *,
    tls: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """A bus, to be used in a `with` statement."""
    own = dict(settings or {})
    if setup == BROKERS:
        return BrokersBus(own)
    if setup == PARTITIONED:
        return Bus(stores=_STORES, tls=tls, settings={**_PARTITIONED, **own})
    if setup == POSTGRES:
        server = request.getfixturevalue("postgres_server")
        own["store"] = (server.url(f"c_{secrets.token_hex(8)}"),)
    return Bus(tls=tls, settings=own)

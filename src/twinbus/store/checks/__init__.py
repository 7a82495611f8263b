"""What every store and every catalog must do, as functions to run against one.

    async def test_my_store(tmp_path):
        await check_store(lambda: MyPlace(tmp_path))

A place is where the thing under test keeps its content: objects made at the same
place see the same content, as two processes see one disk. Each check gets a fresh
place and raises AssertionError with the rule that was broken. `STORE_CHECKS` and
`CATALOG_CHECKS` are the single checks, for test runners that list them.
"""

from collections.abc import Awaitable, Callable

from twinbus.store.checks import (
    brokers,
    catalog,
    catalog_changes,
    commits,
    entities,
    lease,
    ledgers,
    purging,
    ranges,
    reader_leases,
    reading,
    refills,
    rules,
    session_states,
    sessions,
    shared_bodies,
    time_passing,
)
from twinbus.store.checks.places import CatalogPlace, StorePlace

StoreCheck = Callable[[StorePlace], Awaitable[None]]
CatalogCheck = Callable[[CatalogPlace], Awaitable[None]]

STORE_CHECKS: tuple[StoreCheck, ...] = (
    *lease.CHECKS,
    *commits.CHECKS,
    *reading.CHECKS,
    *refills.CHECKS,
    *ranges.CHECKS,
    *reader_leases.CHECKS,
    *time_passing.CHECKS,
    *purging.CHECKS,
    *ledgers.CHECKS,
    *sessions.CHECKS,
    *session_states.CHECKS,
    *shared_bodies.CHECKS,
    *rules.CHECKS,
    *entities.CHECKS,
)
CATALOG_CHECKS: tuple[CatalogCheck, ...] = (
    *catalog.CHECKS,
    *catalog_changes.CHECKS,
    *brokers.CHECKS,
)


async def check_store(make_place: Callable[[], StorePlace]) -> None:
    """Run every store check, each at a place of its own."""
    for check in STORE_CHECKS:
        await check(make_place())


async def check_catalog(make_place: Callable[[], CatalogPlace]) -> None:
    """Run every catalog check, each at a place of its own."""
    for check in CATALOG_CHECKS:
        await check(make_place())


__all__ = [
    "check_store",
    "check_catalog",
    "StorePlace",
    "CatalogPlace",
    "STORE_CHECKS",
    "CATALOG_CHECKS",
    "StoreCheck",
    "CatalogCheck",
]

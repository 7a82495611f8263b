"""The public checks over each backend; and that they find a wrong store."""

from pathlib import Path

import pytest

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.checks import (
    CATALOG_CHECKS,
    STORE_CHECKS,
    CatalogCheck,
    StoreCheck,
    check_catalog,
    check_store,
    lease,
)
from twinbus.store.checks.expectation import refused
from twinbus.store.lease import HeldLease
from twinbus.store.memory import MemoryStore
from twinbus.store.memory_lease import MemoryLease

from .places import MemoryPlace, PostgresPlace, SqlitePlace


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_store_passes(
    check: StoreCheck, place: MemoryPlace | SqlitePlace | PostgresPlace
) -> None:
    await check(place)


@pytest.mark.parametrize("check", CATALOG_CHECKS, ids=lambda check: check.__name__)
async def test_catalog_passes(
    check: CatalogCheck, place: MemoryPlace | SqlitePlace | PostgresPlace
) -> None:
    await check(place)


async def test_the_public_functions_run_every_check(tmp_path: Path) -> None:
    places: list[SqlitePlace] = []

    def make_place() -> SqlitePlace:
        places.append(SqlitePlace(tmp_path / str(len(places))))
        return places[-1]

    await check_store(make_place)
    assert len(places) == len(STORE_CHECKS)
    await check_catalog(make_place)
    assert len(places) == len(STORE_CHECKS) + len(CATALOG_CHECKS)


class ForgetfulPlace(MemoryPlace):
    """Its stores have forgotten everything when they are opened again."""

    def store(self) -> MemoryStore:
        return MemoryStore()


async def test_a_store_that_breaks_a_rule_is_told_which() -> None:
    with pytest.raises(AssertionError, match="raises the epoch: expected 2"):
        await check_store(ForgetfulPlace)


async def _take_from_anybody(self: MemoryLease, owner: str, now: int) -> int:
    self._disk.epoch += 1
    self.epoch = self._disk.epoch
    return self.epoch


async def _take_without_an_epoch(self: MemoryLease, owner: str, now: int) -> int:
    if self._disk.owner is not None:
        raise StoreInUse("in use")
    self._disk.owner, self.epoch = owner, 1
    self._disk.epoch = 1
    return 1


async def _renew_nothing(self: MemoryLease, now: int) -> None:
    pass


async def _give_back_what_is_lost(self: MemoryLease) -> None:
    self._disk.owner, self.epoch = None, 0


@pytest.mark.parametrize(
    ("thing", "name", "mistake"),
    [
        (MemoryLease, "take", _take_from_anybody),
        (MemoryLease, "take", _take_without_an_epoch),
        (MemoryLease, "renew", _renew_nothing),
        (MemoryLease, "give_back", _give_back_what_is_lost),
        (HeldLease, "is_expired", lambda self, at: False),
        (HeldLease, "must_renew", lambda self, at: False),
        (MemoryStore, "_check_lease", lambda self, epoch: None),
    ],
)
async def test_a_mistake_in_a_lease_is_found(
    monkeypatch: pytest.MonkeyPatch, thing: type, name: str, mistake: object
) -> None:
    monkeypatch.setattr(thing, name, mistake)
    with pytest.raises((AssertionError, StoreError)):
        for check in lease.CHECKS:
            await check(MemoryPlace(30_000))


def test_a_refusal_that_does_not_come_is_noticed() -> None:
    with (
        pytest.raises(AssertionError, match="a rule: expected StoreError"),
        refused(StoreError, "a rule"),
    ):
        pass

"""The public checks over each backend; and that they find a wrong store."""

from pathlib import Path

import pytest

from twinbus.store.base import StoreError
from twinbus.store.checks import (
    CATALOG_CHECKS,
    STORE_CHECKS,
    CatalogCheck,
    StoreCheck,
    check_catalog,
    check_store,
)
from twinbus.store.checks.expectation import refused
from twinbus.store.memory import MemoryStore

from .places import MemoryPlace, SqlitePlace


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_store_passes(
    check: StoreCheck, place: MemoryPlace | SqlitePlace
) -> None:
    await check(place)


@pytest.mark.parametrize("check", CATALOG_CHECKS, ids=lambda check: check.__name__)
async def test_catalog_passes(
    check: CatalogCheck, place: MemoryPlace | SqlitePlace
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
    with pytest.raises(AssertionError, match="opening raises the epoch: expected 2"):
        await check_store(ForgetfulPlace)


def test_a_refusal_that_does_not_come_is_noticed() -> None:
    with (
        pytest.raises(AssertionError, match="a rule: expected StoreError"),
        refused(StoreError, "a rule"),
    ):
        pass

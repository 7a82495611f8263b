"""A broker that follows the catalog: changes that are not told are found."""

from typing import Any

import pytest

from simulator import run_world
from simulator.sighting import Violation
from twinbus.store.memory_catalog_versions import CatalogVersions

WORLDS = 20


def violation() -> BaseException | None:
    for seed in range(WORLDS):
        found = run_world(seed).violation
        if found is not None:
            return found
    return None


def _forget_a_removal(self: CatalogVersions, key: Any, entity: Any) -> None:
    del self._created[key], self._changed[key]


def _forget_an_update(self: CatalogVersions, key: Any, before: Any, after: Any) -> None:
    if before is None or before.generation != after.generation:
        self._created[key] = self._changed[key] = self.last


@pytest.mark.parametrize(
    ("name", "mistake"),
    [("note_removal", _forget_a_removal), ("note_put", _forget_an_update)],
)
def test_a_change_that_is_not_told_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, mistake: Any
) -> None:
    monkeypatch.setattr(CatalogVersions, name, mistake)
    found = violation()
    assert isinstance(found, Violation)
    assert "follows the catalog" in str(found)

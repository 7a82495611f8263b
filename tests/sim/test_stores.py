"""Two stores in one process: some world finds each planted error."""

from collections.abc import Callable
from typing import Any

import pytest

from simulator import run_world, several_stores, stores_world
from twinbus.errors import ForeignFragment
from twinbus.owner.absence import Absence
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError
from twinbus.store.lease import HeldLease

SEEDS = (*range(30), 64, 69)
"""The last two find an owner that goes on when its lease has ended."""


def violation() -> BaseException | None:
    """What the auditor says. Honest worlds of these seeds are in `test_worlds.py`."""
    for seed in SEEDS:
        found = run_world(seed, kind="stores").violation
        if found is not None:
            return found
    return None


def test_a_fragment_in_the_change_set_of_another_store_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete = stores_world.settlement.complete

    def complete_elsewhere(fragment: Any, *given: Any) -> None:
        *before, changes = given
        others = [o for o in OWNERS[-1] if o is not fragment.home]
        complete(fragment, *before, others[0].changes)
        assert changes is fragment.home.changes

    monkeypatch.setattr(
        stores_world,
        "settlement",
        _Planted(stores_world.settlement, complete_elsewhere),
    )
    monkeypatch.setattr(several_stores, "Owners", _noted)
    assert isinstance(violation(), ForeignFragment)


OWNERS: list[Owners] = []


def _noted(owners: Any) -> Owners:
    OWNERS.append(Owners(owners))
    return OWNERS[-1]


class _Planted:
    """The module `settlement`, but for one function."""

    def __init__(self, module: Any, complete: Callable[..., None]) -> None:
        self._module = module
        self.complete = complete

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _refuse(self: Owners, owner: StoreOwner, error: StoreError) -> None:
    raise AssertionError("the bus does not start") from error


async def _fail_first(self: StoreOwner, opened: Any) -> None:
    if self.on_first_opening is not None:
        raise StoreError("planted")


def _do_not_guard(self: StoreOwner, pace: object) -> None:
    self._is_alone = False


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        # Nothing is given up: locks of before hold, and old messages are delivered.
        (StoreOwner, "give_up_memory", lambda self: None),
        # What comes while the store is away is never answered.
        (StoreOwner, "refuse_all", lambda self: None),
        # The store is left alone for good.
        (Absence, "ends", None),
        # Requests read the store itself, and are told what it raises.
        (StoreOwner, "serve_beside_others", _do_not_guard),
        # A start without one of the stores is refused.
        (Owners, "_allow_absence", _refuse),
        # A store that was away at the start is never opened.
        (StoreOwner, "_first_opening", _fail_first),
        # The lease never ends for its holder.
        (HeldLease, "is_expired", lambda self, at: False),
    ],
)
def test_a_mistake_of_an_owner_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mistake: Any
) -> None:
    monkeypatch.setattr(owner, name, mistake or _never)
    assert violation() is not None


async def _never(self: Any) -> bool:
    return False

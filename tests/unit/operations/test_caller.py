"""Every operation checks by itself that its caller has the claim."""

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from unit.entities.world import World

from twinbus import operations
from twinbus.auth.claims import Claim
from twinbus.errors import UnauthorizedAccess
from twinbus.links.outcomes import COMPLETE, Settlement
from twinbus.operations.accepting import accept_session
from twinbus.operations.bulk import leases, plan_holds, ranges, runtimes
from twinbus.operations.bulk.leases import LeaseWish
from twinbus.operations.bulk.plan_holds import Wanted
from twinbus.operations.bulk.requests import SettleRequest
from twinbus.operations.bulk.settlements import RangeSettlement, settle_ranges
from twinbus.operations.bulk.shares import Hold, PlanNote
from twinbus.operations.cancel_sent import cancel_sent
from twinbus.operations.deferred import receive_deferred
from twinbus.operations.deletion import delete_messages
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.locks import abandon, complete, renew_locks, settle
from twinbus.operations.peeking import peek
from twinbus.operations.receiving import receive
from twinbus.operations.resubmission import resubmit
from twinbus.operations.rules import add_rule, list_rules, remove_rule
from twinbus.operations.scheduling import cancel_scheduled, schedule_messages
from twinbus.operations.sending import send, send_batch, sent
from twinbus.operations.sessions import (
    list_sessions,
    renew_session,
    session_state,
    set_session_state,
)
from twinbus.rules.rule import default_rule

from .callers import LimitedCaller, opened

TOKEN = bytes(16)
SETTLEMENT = SettleRequest(path="orders", epoch="1")
SENDING: dict[str, Callable[[EntityHandle], Awaitable[Any]]] = {
    "send": lambda handle: send(handle, [b""]),
    "sent": lambda handle: sent(handle, handle.part(0), []),
    "schedule_messages": lambda handle: schedule_messages(handle, [b""]),
    "cancel_scheduled": lambda handle: cancel_scheduled(handle, [1]),
    "send_batch": lambda handle: send_batch(handle, [b""]),
    "cancel_sent": lambda handle: cancel_sent(handle, [b"1"]),
    "resubmit": lambda handle: resubmit(handle, 1, 0),
}
LISTENING: dict[str, Callable[[EntityHandle], Awaitable[Any]]] = {
    "peek": lambda handle: peek(handle, 0, 1),
    "receive": lambda handle: receive(handle, 1, 0),
    "receive_deferred": lambda handle: receive_deferred(handle, [1], peek_lock=True),
    "accept_session": lambda handle: accept_session(handle, None, 0),
    "delete_messages": lambda handle: delete_messages(handle, 1, 0),
    "resubmit": lambda handle: resubmit(handle, 1, 0),
    "renew_locks": lambda handle: renew_locks(handle, [TOKEN]),
    "complete": lambda handle: complete(handle, TOKEN),
    "abandon": lambda handle: abandon(handle, TOKEN),
    "settle": lambda handle: settle(handle, [TOKEN], Settlement(COMPLETE)),
    "renew_session": lambda handle: renew_session(handle, "a"),
    "session_state": lambda handle: session_state(handle, "a"),
    "set_session_state": lambda handle: set_session_state(handle, "a", b""),
    "list_sessions": lambda handle: list_sessions(handle, 0, 1),
    "add_rule": lambda handle: add_rule(handle, default_rule(0)),
    "remove_rule": lambda handle: remove_rule(handle, "a"),
    "list_rules": lambda handle: list_rules(handle, 0, 1),
    "runtime_of": runtimes.runtime_of,
    "first_since": lambda handle: plan_holds.first_since(handle.part(0), 0),
    "read_outlines": lambda handle: plan_holds.read_outlines(handle.part(0), 0, 1, 1),
    # Those of several entities, of a class, or that yield.
    "lease": lambda handle: leases.lease(
        "spark", 1_000, [LeaseWish(handle=handle, epoch=None)]
    ),
    "release": lambda handle: leases.release("spark", [(handle, "1")]),
    "hold": lambda handle: held(handle),
    "note_plans": lambda handle: plan_holds.note_plans("spark", noted(handle)),
    "restore_plans": lambda handle: restored(handle),
    "browse": lambda handle: browsed(handle),
    "settle_ranges": lambda handle: settle_ranges(handle, "spark", SETTLEMENT),
    "apply": lambda handle: settled(handle),
}


async def held(handle: EntityHandle) -> None:
    part = Wanted(handle=handle.part(0), first=0, last=1, epoch=None)
    await plan_holds.hold("spark", [part])


def noted(handle: EntityHandle) -> list[tuple[FragmentHandle, PlanNote]]:
    hold = Hold(store_epoch=1, restore_count=0, plan_count=0)
    note = PlanNote(path="orders", index=0, epoch="1", first=0, through=1, hold=hold)
    return [(handle.part(0), note)]


async def restored(handle: EntityHandle) -> None:
    plan_holds.restore_plans("spark", noted(handle))


async def browsed(handle: EntityHandle) -> None:
    async for _ in ranges.browse(handle.part(0), 0, 1, ["body"], frozenset({0}), 1):
        pass


async def settled(handle: EntityHandle) -> None:
    await RangeSettlement(handle.part(0), "spark", "1").apply(SETTLEMENT)


def offered() -> Iterator[str]:
    """All public coroutines of the package that begin with a handle."""
    for found in pkgutil.walk_packages(operations.__path__, "twinbus.operations."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
            first = next(iter(inspect.signature(function).parameters.values()), None)
            is_own = function.__module__ == found.name and not name.startswith("_")
            if (
                is_own
                and first is not None
                and first.annotation in (EntityHandle, FragmentHandle)
            ):
                yield name


def test_none_is_forgotten_here() -> None:
    assert set(offered()) <= {*SENDING, *LISTENING}
    assert len(set(offered())) > 15


@pytest.mark.parametrize("name", SENDING)
async def test_sending_needs_send(world: World, name: str) -> None:
    await world.namespace.create_queue("orders", {})
    handle = opened(world, caller=LimitedCaller(Claim.LISTEN))
    with pytest.raises(UnauthorizedAccess, match="'Send' claim"):
        await SENDING[name](handle)


@pytest.mark.parametrize("name", LISTENING)
async def test_listening_needs_listen(world: World, name: str) -> None:
    await world.namespace.create_queue("orders", {})
    handle = opened(world, caller=LimitedCaller(Claim.SEND))
    with pytest.raises(UnauthorizedAccess, match="'Listen' claim"):
        await LISTENING[name](handle)

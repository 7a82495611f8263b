"""What one broker asks another for a bulk request: the other gets the same values, and
its answers come back as they were."""

from typing import Any, cast

import pytest

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.broker.outline import Outlines
from twinbus.doors.http.bulk.bulk import Bulk
from twinbus.doors.http.bulk.forwarded_caller import forwarded_headers
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.bulk.peer_bulk import PREFIX, PeerBulk
from twinbus.doors.http.bulk.remote_share import RemoteShare
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import (
    AuthenticationFailed,
    NotSupported,
    ReaderLeaseHeld,
    ServerBusy,
    ServiceBusError,
)
from twinbus.operations.bulk.requests import (
    Appended,
    EntityRuntime,
    FragmentRuntime,
    LeaseGrant,
    LeaseInfo,
    LeaseRequest,
    Poison,
    RefusedRow,
    Settled,
    SettleRequest,
)
from twinbus.operations.bulk.shares import (
    BrokerShare,
    FragmentsOf,
    HeldFragment,
    HeldFragments,
    Hold,
    HoldRequest,
    LeaseCheck,
    OutlinesRequest,
    PlanNote,
    SomeOutlines,
)

NOW = 1_000_000_000_000
CLUSTER = Policy(
    (AuthorizationRule(key_name="$cluster", primary_key="c", claims=Claim.MANAGE),)
)
CLIENTS = Policy(
    (
        AuthorizationRule(key_name="all", primary_key="k", claims=Claim.MANAGE),
        AuthorizationRule(
            key_name="own", primary_key="o", claims=Claim.LISTEN, scope="orders"
        ),
    )
)
HOLD = Hold(store_epoch=3, restore_count=1, plan_count=7)
NOTE = PlanNote(path="orders", index=2, epoch="9", first=1, through=5, hold=HOLD)


class FixedClock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


class RecordingShare:
    """Keeps what it is asked, and answers as it was told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.callers: list[Any] = []
        self.answer: Any = None

    def __getattr__(self, name: str) -> Any:
        async def ask(caller: Any, *arguments: Any) -> Any:
            self.callers.append(caller)
            self.asked.append((name, arguments))
            if isinstance(self.answer, ServiceBusError):
                raise self.answer
            return self.answer

        return ask


class Wire:
    """Two brokers without sockets between them."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.far = RecordingShare()
        self.key = "c"
        bulk = cast(Bulk, None)
        share = cast(BrokerShare, self.far)
        self.peer_bulk = PeerBulk(share, bulk, self.clock, CLUSTER)
        self.near = RemoteShare("b:1", self.ask)
        self.caller = client("all", "k")
        # In place of an answer of the other broker.
        self.instead: HttpResponse | None = None

    async def ask(
        self,
        address: str,
        name: str,
        body: bytes,
        caller: HttpCaller,
        timeout_seconds: float,
    ) -> HttpResponse:
        assert address == "b:1" and timeout_seconds > 0
        token = sas.make(
            resource="http://b:1/",
            key_name="$cluster",
            key=self.key,
            expires_at=NOW + 60_000,
        )
        request = HttpRequest(
            method="POST",
            target=f"/{PREFIX}{name}",
            headers={"authorization": token, **forwarded_headers(caller)},
            body=body,
        )
        assert len(body) <= self.peer_bulk.max_body_bytes(request)
        return self.instead or await self.peer_bulk.answer(request)


def client(key_name: str, key: str, seconds: int = 60) -> HttpCaller:
    token = sas.make(
        resource="http://localhost/",
        key_name=key_name,
        key=key,
        expires_at=NOW + 1000 * seconds,
    )
    request = HttpRequest(
        method="POST", target="/$bulk/x", headers={"authorization": token}
    )
    caller = HttpCaller(request, CLIENTS, NOW, Actors())
    caller.name = "bulk nächtlich"
    return caller


def outlines() -> Outlines:
    found = Outlines()
    found.add(4, 1_000, 20, 0)
    found.add(7, 1_001, 30, 0)
    return found


RUNTIME = EntityRuntime(
    path="orders",
    generation="ab",
    created_at=NOW,
    requires_session=False,
    fragments=[
        FragmentRuntime(
            index=index,
            first=None,
            first_enqueued_at=None,
            next=5,
            last_enqueued_at=NOW,
            active_count=1,
            deferred_count=2,
            scheduled_count=3,
            size_bytes=4,
            lease=lease,
            store="cd",
        )
        for index, lease in enumerate(
            [None, LeaseInfo(reader="r", epoch="1", expires_in_ms=2)]
        )
    ],
)
LEASE = LeaseRequest(path="orders", epoch=None, indexes=[1, 2], least_epoch=1 << 60)
HELD = HeldFragment(
    path="orders", first=1, last=1 << 40, backlog=3, hold=HOLD, before=(2, 5)
)
SETTLEMENT = SettleRequest(
    path="orders",
    epoch="9",
    dead_letter=[Poison(sequence_number=1 << 50, reason="ü", description="")],
    defer=[3, 4],
    complete=[],
    ends={2: 9, 11: 7},
    indexes=None,
)
HOLDING = HoldRequest(
    path="orders",
    index=2,
    generation="ab",
    epoch=None,
    first=5,
    end=None,
    first_time=None,
    end_time=NOW,
)
CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "runtime": (([FragmentsOf(path="orders", indexes=[0, 1])],), [RUNTIME, None]),
    "check_leases": (("spark", [LEASE]), [LeaseCheck(next_epoch=4, is_own=True)]),
    "lease": (
        ("spark", 60_000, [LEASE]),
        [LeaseGrant(path="orders", epoch="5", expires_in_ms=60_000)],
    ),
    "release": (("spark", [LEASE]), [True]),
    "hold": (
        ("spark", [HOLDING]),
        HeldFragments(horizon=NOW, fragments=[HELD]),
    ),
    "note_plans": (("spark", [NOTE]), None),
    "restore_plans": (("spark", [NOTE]), None),
    "check_settlements": (("spark", [SETTLEMENT]), None),
    "settle": (
        ("spark", [SETTLEMENT]),
        [Settled(path="orders", completed=1, dead_lettered=2, deferred=3)],
    ),
    "append": (
        (["orders", "a/b"], [b"one", b"\x00two"]),
        Appended(
            applied_count=1,
            known=[1],
            refused=[
                RefusedRow(row=2, condition="c", text="t", is_retryable=True),
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_values_and_answers_arrive_as_they_are(name: str) -> None:
    wire = Wire()
    arguments, wire.far.answer = CASES[name]
    found = await getattr(wire.near, name)(wire.caller, *arguments)
    assert found == wire.far.answer
    assert wire.far.asked == [(name, arguments)]


def test_every_share_of_a_broker_can_be_asked_for() -> None:
    own = {name for name in vars(BrokerShare) if not name.startswith("_")}
    assert own == {*CASES, "outlines"}


async def test_outlines_arrive_without_shared_bodies() -> None:
    wire = Wire()
    wire.far.answer = SomeOutlines(outlines=outlines(), is_last=True)
    request = OutlinesRequest(path="orders", index=2, first=1, last=9, count=5)
    found = await wire.near.outlines(wire.caller, request)
    assert wire.far.asked == [("outlines", (request,))]
    assert found.is_last
    assert found.outlines.row_ids == [4, 7]
    assert found.outlines.enqueued_at == [1_000, 1_001]
    assert found.outlines.sizes == [20, 30]


async def test_refusal_is_that_of_the_other_broker() -> None:
    wire = Wire()
    wire.far.answer = ReaderLeaseHeld.by("nightly", 5_000, entity_path="orders")
    with pytest.raises(ReaderLeaseHeld, match="'nightly' for 5 more") as caught:
        await wire.near.release(wire.caller, "spark", [])
    assert caught.value.entity_path == "orders"


async def test_refusal_in_plain_text_means_busy() -> None:
    """A broker that holds too many bytes answers before it has read the body."""
    wire = Wire()
    wire.instead = text_response(503, "The server holds 256 bytes.")
    with pytest.raises(ServerBusy, match="holds 256 bytes"):
        await wire.near.release(wire.caller, "spark", [])


async def test_request_that_the_other_broker_does_not_know() -> None:
    wire = Wire()
    with pytest.raises(NotSupported, match="'later'"):
        await wire.near._post("later", wire.caller, {})


async def test_other_broker_learns_the_client_and_trusts_the_first() -> None:
    wire = Wire()
    wire.far.answer = []
    for key_name, key, may_restore in (("all", "k", True), ("own", "o", False)):
        wire.caller = client(key_name, key)
        await wire.near.release(wire.caller, "spark", [])
        forwarded = wire.far.callers[-1]
        assert forwarded._name == f"bulk nächtlich for {key_name}"
        assert forwarded.holds(Claim.SEND, "") is may_restore
        # Its own broker has refused what it may not do.
        forwarded.require(Claim.LISTEN, "anything")


async def test_token_that_expires_on_the_way_is_refused() -> None:
    wire = Wire()
    wire.caller = client("all", "k", seconds=30)
    wire.clock.at = NOW + 30_000
    with pytest.raises(AuthenticationFailed, match="on the way"):
        await wire.near.release(wire.caller, "spark", [])
    assert wire.far.asked == []


async def test_another_key_than_that_of_the_cluster_is_refused() -> None:
    wire = Wire()
    wire.key = "k"
    with pytest.raises(AuthenticationFailed):
        await wire.near.release(wire.caller, "spark", [])
    assert wire.far.asked == []

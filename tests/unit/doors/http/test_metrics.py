"""Who may read the metrics, and how many entities are shown."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.doors.http.bus_metrics import (
    EntityFigures,
    EntityName,
    ProcessFigures,
    StoreFigures,
)
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.metrics import Metrics
from twinbus.doors.http.request import HttpRequest
from twinbus.limits import METRICS_PAGES
from twinbus.testing.clock import ManualClock

NOW = ManualClock().now()


class SmallBus:
    """So many queues, one message each."""

    def __init__(self, count: int) -> None:
        self._paths = [f"queue-{number:05}" for number in range(count)]

    def process_figures(self) -> ProcessFigures:
        return ProcessFigures(
            version="1",
            form="plain",
            namespace="test",
            is_strict=False,
            started_at=NOW,
            connections=1,
            commits=1,
            is_under_pressure=False,
            is_store_full=False,
            is_throttled=False,
        )

    def store_figures(self) -> list[StoreFigures]:
        return [
            StoreFigures(
                name="here.sqlite3",
                state="serving",
                is_full=False,
                commits=4,
                commit_seconds=0.5,
                committing_seconds=0,
                error_age_seconds=None,
            ),
            StoreFigures(
                name="away.sqlite3",
                state="unavailable",
                is_full=False,
                commits=2,
                commit_seconds=0.1,
                committing_seconds=0,
                error_age_seconds=30,
            ),
        ]

    def entity_names(self) -> list[EntityName]:
        return [("", path) for path in self._paths]

    def entity_figures(self, names: Sequence[EntityName]) -> list[EntityFigures]:
        return [
            EntityFigures(
                path=path,
                kind="queue",
                messages=(1, 0, 0, 0, 0),
                size_bytes=1,
                enqueued=1,
                pings=0,
            )
            for _, path in names
        ]


class Access:
    """Rules with one claim each, and one of a queue."""

    policy = Policy(
        (
            AuthorizationRule(key_name="send", primary_key="s", claims=Claim.SEND),
            AuthorizationRule(key_name="listen", primary_key="l", claims=Claim.LISTEN),
            AuthorizationRule(key_name="manage", primary_key="m", claims=Claim.MANAGE),
            AuthorizationRule(
                key_name="own", primary_key="o", claims=Claim.MANAGE, scope="orders"
            ),
        )
    )


def metrics(count: int = 3, held: HeldBytes | None = None) -> Metrics:
    return Metrics(SmallBus(count), Access(), ManualClock(), held or HeldBytes())


def basic(text: str) -> str:
    return "Basic " + b64encode(text.encode()).decode()


def token(key_name: str, key: str, resource: str = "", seconds: int = 3600) -> str:
    return sas.make(
        resource=f"http://localhost/{resource}",
        key_name=key_name,
        key=key,
        expires_at=NOW + seconds * 1000,
    )


def get(target: str = "/metrics", proof: str | None = None) -> HttpRequest:
    proof = basic("listen:l") if proof is None else proof
    headers = {"authorization": proof} if proof else {}
    return HttpRequest(method="GET", target=target, headers=headers)


def entities_in(body: bytes) -> dict[str, set[str]]:
    """The entities that have lines, by family."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(body.decode()):
        assert family.name not in found, f"{family.name} comes twice"
        found[family.name] = {
            sample.labels["entity"]
            for sample in family.samples
            if "entity" in sample.labels
        }
    return found


@pytest.mark.parametrize(
    "proof",
    [
        basic("listen:l"),
        basic("manage:m"),
        token("listen", "l"),
        token("manage", "m"),
    ],
)
async def test_who_may_listen_to_the_namespace_may_see_them(proof: str) -> None:
    answer = await metrics().answer(get(proof=proof))
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "Bearer x",
        "Basic !",
        basic("listen"),
        basic("listen:wrong"),
        basic("send:s"),
        basic("own:o"),
        token("listen", "wrong"),
        token("listen", "l", seconds=-1),
        token("listen", "l", "orders"),
        token("send", "s"),
        token("own", "o"),
    ],
)
async def test_nobody_else_may(proof: str) -> None:
    answer = await metrics().answer(get(proof=proof))
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert b"queue-" not in answer.body


async def test_every_family_is_in_one_piece() -> None:
    answer = await metrics(120).answer(get())
    everything = {f"queue-{number:05}" for number in range(120)}
    found = entities_in(answer.body)
    assert found["twinbus_entity_messages"] == everything
    assert found["twinbus_entity_pings"] == everything


@pytest.mark.parametrize(("asked", "shown"), [("", 1000), ("?entities=7", 7)])
async def test_entities_are_bounded(asked: str, shown: int) -> None:
    answer = await metrics(1010).answer(get(f"/metrics{asked}"))
    assert len(entities_in(answer.body)["twinbus_entity_messages"]) == shown
    assert f"twinbus_entities_left_out {1010.0 - shown}".encode() in answer.body
    assert b'twinbus_messages{state="active"} 1010.0' in answer.body


async def test_sums_can_be_had_alone() -> None:
    answer = await metrics().answer(get("/metrics?entities=0"))
    assert b"queue-" not in answer.body


@pytest.mark.parametrize("asked", ["-1", "all", "", "1" * 10, "\u0663"])
async def test_a_wrong_number_is_refused(asked: str) -> None:
    answer = await metrics().answer(get(f"/metrics?entities={asked}"))
    assert (answer.status, answer.body[:11]) == (400, b"entities is")


async def test_what_else_the_process_tells_is_there() -> None:
    page = metrics()
    Counter("diverted", "Messages.", registry=page.registry).inc(4)
    assert b"\ndiverted_total 4.0\n" in (await page.answer(get())).body


async def test_only_questions_are_answered() -> None:
    post = replace(get(), method="POST")
    assert (await metrics().answer(post)).status == 405
    stranger = replace(post, headers={})
    assert (await metrics().answer(stranger)).status == 401


async def test_no_page_is_made_while_too_much_is_unread() -> None:
    held = HeldBytes(100)
    asked = metrics(held=held)
    held.held = 100
    refused = await asked.answer(get())
    assert refused.status == 503
    held.held = 99
    assert (await asked.answer(get())).status == 200
    # Who has no key learns nothing of it.
    held.held = 100
    assert (await asked.answer(get(proof=""))).status == 401


async def test_few_pages_are_made_at_a_time() -> None:
    """Each of them is in memory; who waits finds what the others have left unread."""
    held = HeldBytes(100)
    asked = metrics(300, held)
    first = [asyncio.ensure_future(asked.answer(get())) for _ in range(METRICS_PAGES)]
    late = asyncio.ensure_future(asked.answer(get()))
    await asyncio.sleep(0)
    held.held = 100
    assert [page.status for page in await asyncio.gather(*first)] == [200, 200]
    assert (await late).status == 503

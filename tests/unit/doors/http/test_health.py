"""Health: unhealthy if commits of the store fail, or a broker is cut off."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from twinbus.doors.http import health
from twinbus.doors.http.health import CheckedStore, Health
from twinbus.doors.http.request import HttpRequest
from twinbus.errors import ServerBusy

GET = HttpRequest(method="GET", target="/health", headers={})


async def _at_once() -> None:
    pass


async def _refuse() -> None:
    raise ServerBusy("The message store is away.")


Commit = Callable[[], Awaitable[object]]


def of(*commits: Commit) -> Health:
    """Of stores that commit like this."""
    stores = enumerate(commits, 1)
    return Health([CheckedStore(name=f"store-{n}", commit=one) for n, one in stores])


def of_a_broker(*commits: Commit | None, catalog_trouble: str = "") -> Health:
    """Of one of several brokers. None: another broker has the store."""
    stores = [
        CheckedStore(
            name=f"store-{number}",
            commit=_refuse if commit is None else commit,
            is_here=lambda commit=commit: commit is not None,
        )
        for number, commit in enumerate(commits, 1)
    ]
    return Health(stores, lambda: catalog_trouble)


async def test_a_store_that_commits_is_healthy() -> None:
    answer = await of(_at_once).answer(GET)
    assert (answer.status, answer.body) == (200, b"healthy\n")


async def test_a_store_that_refuses_is_not() -> None:
    async def refuse() -> None:
        raise ServerBusy("The disk is full.")

    answer = await of(refuse).answer(GET)
    assert (answer.status, answer.body) == (503, b"unhealthy: The disk is full.\n")


async def test_a_store_that_hangs_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_PATIENCE_SECONDS", 0.01)
    answer = await of(asyncio.Event().wait).answer(GET)
    assert answer.status == 503
    assert b"takes longer than 0.01 seconds" in answer.body


async def test_only_questions_are_answered() -> None:
    post = HttpRequest(method="POST", target="/health", headers={})
    assert (await of(_at_once).answer(post)).status == 405


async def test_one_of_several_stores_that_is_away_is_named() -> None:
    answer = await of(_at_once, _refuse).answer(GET)
    assert answer.status == 200
    assert answer.body == b"degraded\nstore store-2: The message store is away.\n"


async def test_several_stores_that_are_all_away_are_unhealthy() -> None:
    answer = await of(_refuse, _refuse).answer(GET)
    assert answer.status == 503
    assert answer.body.startswith(b"unhealthy\nstore store-1: ")


async def test_stores_of_other_brokers_are_not_asked() -> None:
    assert (await of_a_broker(None, _at_once).answer(GET)).body == b"healthy\n"
    assert (await of_a_broker(None, None).answer(GET)).body == b"healthy\n"


async def test_broker_whose_only_store_is_away_still_passes_on() -> None:
    answer = await of_a_broker(None, _refuse).answer(GET)
    assert answer.status == 200
    assert answer.body == b"degraded\nstore store-2: The message store is away.\n"


async def test_broker_without_the_catalog_that_serves_a_store_is_degraded() -> None:
    health = of_a_broker(None, _at_once, catalog_trouble="It is away.")
    answer = await health.answer(GET)
    assert answer.status == 200
    assert answer.body == (
        b"degraded\n"
        b"catalog: It is away. Entities cannot be created, changed or removed.\n"
    )


@pytest.mark.parametrize("own", [None, _refuse])
async def test_broker_without_the_catalog_and_its_stores_is_unhealthy(
    own: Commit | None,
) -> None:
    health = of_a_broker(None, own, catalog_trouble="It is away.")
    answer = await health.answer(GET)
    assert answer.status == 503
    assert answer.body.startswith(
        b"unhealthy\ncatalog: It is away. No store is served here"
    )
    assert (b"store store-2: " in answer.body) == (own is not None)


async def test_catalog_of_a_cluster_with_one_store_counts_as_well() -> None:
    answer = await of_a_broker(_at_once, catalog_trouble="It is away.").answer(GET)
    assert answer.status == 200
    assert answer.body.startswith(b"degraded\ncatalog: It is away.")

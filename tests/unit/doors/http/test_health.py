"""Health: unhealthy if commits of the store fail."""

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


def of(*commits: Callable[[], Awaitable[object]]) -> Health:
    """Of stores that commit like this."""
    stores = enumerate(commits, 1)
    return Health([CheckedStore(name=f"store-{n}", commit=one) for n, one in stores])


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

"""Health: unhealthy if commits of the store fail."""

import asyncio

import pytest

from twinbus.doors.http import health
from twinbus.doors.http.health import Health
from twinbus.doors.http.request import HttpRequest
from twinbus.errors import ServerBusy

GET = HttpRequest(method="GET", target="/health", headers={})


async def test_a_store_that_commits_is_healthy() -> None:
    answer = await Health(lambda: asyncio.sleep(0)).answer(GET)
    assert (answer.status, answer.body) == (200, b"healthy\n")


async def test_a_store_that_refuses_is_not() -> None:
    async def refuse() -> None:
        raise ServerBusy("The disk is full.")

    answer = await Health(refuse).answer(GET)
    assert (answer.status, answer.body) == (503, b"unhealthy: The disk is full.\n")


async def test_a_store_that_hangs_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_PATIENCE_SECONDS", 0.01)
    answer = await Health(asyncio.Event().wait).answer(GET)
    assert answer.status == 503
    assert b"takes longer than 0.01 seconds" in answer.body


async def test_only_questions_are_answered() -> None:
    post = HttpRequest(method="POST", target="/health", headers={})
    assert (await Health(lambda: asyncio.sleep(0)).answer(post)).status == 405

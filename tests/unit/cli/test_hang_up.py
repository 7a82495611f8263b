"""SIGHUP: a request, unless the terminal has gone."""

import asyncio
import io
import os
import pty
import signal
import sys

import pytest

from twinbus.cli.hang_up import heed_hang_up


class Told:
    """Which of both was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._happened = asyncio.Event()

    def reload(self) -> None:
        self.calls.append("reload")
        self._happened.set()

    def stop(self) -> None:
        self.calls.append("stop")
        self._happened.set()

    async def hang_up(self) -> list[str]:
        """What the signal led to."""
        self._happened.clear()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(self._happened.wait(), 20)
        return self.calls


@pytest.fixture
async def told() -> Told:
    return Told()


async def test_signal_is_a_request_without_a_terminal(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with io.StringIO() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        heed_hang_up(told.reload, told.stop)
        assert await told.hang_up() == ["reload"]
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


async def test_signal_stops_when_the_terminal_has_gone(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    controlling, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        heed_hang_up(told.reload, told.stop)
        assert await told.hang_up() == ["reload"]
        os.close(controlling)
        assert await told.hang_up() == ["reload", "stop"]
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

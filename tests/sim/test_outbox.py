"""Messages from store to store: some world finds each planted error."""

from typing import Any

import pytest

from simulator import run_world
from twinbus.outbox.lane import Lane
from twinbus.outbox.outbox_arrival import OutboxArrival
from twinbus.outbox.transfer_log import TransferLog

WORLDS = 60


def violation(first: int = 0) -> BaseException | None:
    """What the auditor says; the world of the seed `first` showed it when the test was
    written. Honest worlds of these seeds are in `test_worlds.py`."""
    for seed in (first, *range(WORLDS)):
        found = run_world(seed, kind="outbox").violation
        if found is not None:
            return found
    return None


def test_a_removal_before_the_append_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    carry = Lane._carry

    async def remove_first(self: Lane, entries: Any) -> None:
        for entry in entries:
            self._source.outbox.remove(entry, self._source.changes)
        await self._source.durable()
        return await carry(self, entries)

    async def clear(self: Lane, arrival: Any) -> None:
        pass

    monkeypatch.setattr(Lane, "_carry", remove_first)
    monkeypatch.setattr(Lane, "_clear", clear)
    assert "accepted and is gone" in str(violation())


def test_a_ledger_that_nobody_asks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutboxArrival, "ask_restored", lambda self, origin: None)
    assert "there twice" in str(violation())


def test_an_append_that_is_not_recorded_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OutboxArrival, "_remember", lambda self: None)
    assert "there twice" in str(violation(first=1))


def test_a_send_that_overtakes_the_log_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = TransferLog.send

    def send_and_forget(self: TransferLog, *given: Any, **named: Any) -> None:
        send(self, *given, **named)
        _, home, _ = given
        home.awaited.clear()

    monkeypatch.setattr(TransferLog, "send", send_and_forget)
    assert "out of order" in str(violation())


def test_a_detour_that_is_not_renewed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransferLog, "renew", lambda self, source: None)
    assert "out of order" in str(violation(first=4))


def test_a_refused_entry_that_is_recorded_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source has it again after a crash, and the target says it has it."""
    apply = OutboxArrival.apply

    def record_refused(self: OutboxArrival, duplicates: Any, now: int) -> None:
        apply(self, duplicates, now)
        taken = self.taken
        self.taken = [*taken, *self.refused]
        self._remember()
        self.taken = taken

    monkeypatch.setattr(OutboxArrival, "apply", record_refused)
    assert "accepted and is gone" in str(violation())

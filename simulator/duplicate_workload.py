"""Clients of queues that detect duplicates: they send the same ids again."""

from dataclasses import replace
from random import Random
from typing import Final

from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.draft import Draft
from simulator.workload import Workload

_WINDOWS_MS: Final = (20_000, 20_000, 60_000)


class DuplicateWorkload(Workload):
    """Sends messages, some with an id that was sent before."""

    creations = 5.0

    def __init__(self, random: Random, auditor: Auditor) -> None:
        super().__init__(random, auditor)
        # With few ids nearly all messages are duplicates, with many nearly none.
        self._id_count = random.choice((2, 8, 30))

    def _rules(self) -> Rules:
        window_ms = self._random.choice(_WINDOWS_MS)
        if self._random.random() < 0.15:
            window_ms = 0
        return replace(super()._rules(), duplicate_window_ms=window_ms)

    def _draft(self, scheduled_at: int = 0) -> Draft:
        draft = super()._draft(scheduled_at)
        number = self._random.randint(0, self._id_count)
        return replace(draft, message_id=f"id{number}" if number else "")

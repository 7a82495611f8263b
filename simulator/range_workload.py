"""Clients of queues that readers of ranges lease now and then."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.life import Life
from simulator.range_auditor import RangeAuditor
from simulator.range_reader import SimulatedReader
from simulator.session_workload import SessionWorkload

_NAMES: Final = ("reader-1", "reader-2", "reader-3")


class RangeWorkload(SessionWorkload):
    """Readers, and one that competes with them, besides the clients of sessions."""

    creations = 8.0
    auditor = RangeAuditor
    paths = ("apples", "pears")

    def __init__(self, random: Random, auditor: Auditor) -> None:
        super().__init__(random, auditor)
        assert isinstance(auditor, RangeAuditor)
        self._readers = [
            SimulatedReader(name, Random(random.random()), auditor) for name in _NAMES
        ]
        for reader, path in zip(self._readers, (*self.paths, None), strict=True):
            reader.move(path or random.choice(self.paths))
        # How often the third reader tries to take the lease of another.
        self._envy = random.choice((0.02, 0.3))
        steps: list[tuple[Callable[[Life], None], float]] = [
            (self._read, 20 + 60 * random.random()),
            (self._haunt, 4 * random.random()),
            (self._crash, 3 * random.random()),
            (self._move, random.random()),
            (self._send_batch, 8.0),
            (self._batch_delete, 2.0),
        ]
        self._steps += steps
        self._message_limit = random.choice((40, 120))

    def _rules(self) -> Rules:
        """Many messages expire, to show that planned ones are kept."""
        lives = (0, 0, 3_000, 30_000)
        return replace(
            super()._rules(),
            default_ttl_ms=self._random.choice(lives),
            requires_session=self._random.random() < 0.3,
        )

    def _read(self, life: Life) -> None:
        """Readers take turns."""
        is_envious = self._random.random() < self._envy
        for reader in self._readers if is_envious else self._readers[:-1]:
            reader.step(life)

    def _reader(self) -> SimulatedReader:
        return self._random.choice(self._readers)

    def _haunt(self, life: Life) -> None:
        self._reader().haunt(life)

    def _crash(self, life: Life) -> None:
        self._reader().crash(life)

    def _move(self, life: Life) -> None:
        self._readers[-1].move(self._random.choice(self.paths))

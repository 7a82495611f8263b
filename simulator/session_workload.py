"""Clients of queues that require sessions, in addition to the usual ones."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from simulator import requests, session_requests
from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.draft import Draft
from simulator.life import Life
from simulator.links import SimulatedReceiver
from simulator.session_links import SimulatedAccept
from simulator.workload import Workload

SESSION_IDS: Final = ("north", "east", "south", "west")


class SessionWorkload(Workload):
    """Sends to sessions, accepts them, and sets their states."""

    creations = 5.0

    def __init__(self, random: Random, auditor: Auditor) -> None:
        super().__init__(random, auditor)
        steps: list[tuple[Callable[[Life], None], float]] = [
            (self._accept, 8 * random.random()),
            (self._renew_session, 4 * random.random()),
            (self._set_state, 3 * random.random()),
            (self._get_state, 2 * random.random()),
            (self._peek_session, 2 * random.random()),
        ]
        self._steps += steps

    def _receive(self, life: Life) -> None:
        """Mostly from a session that a client holds."""
        holder = self._holder(life)
        if holder is not None and holder.is_attached and self._random.random() < 0.8:
            self._give_credit(holder)
        else:
            super()._receive(life)

    def _rules(self) -> Rules:
        rules = super()._rules()
        return replace(rules, requires_session=self._random.random() < 0.85)

    def _draft(self, scheduled_at: int = 0) -> Draft:
        draft = super()._draft(scheduled_at)
        return replace(draft, session_id=self._random.choice(SESSION_IDS))

    def _new_receiver(
        self, life: Life, path: str, dead_letter: bool, peek_lock: bool
    ) -> SimulatedReceiver | None:
        if dead_letter or not self._auditor.sessions.requires_session(path):
            return super()._new_receiver(life, path, dead_letter, peek_lock)
        return None

    # --- sessions -------------------------------------------------------------

    def _accept(self, life: Life) -> None:
        path = self._path()
        session_id = self._random.choice((*SESSION_IDS, None, None, None))
        patience = self._random.choice((0.0, 1.0, 60.0))
        peek_lock = self._random.random() < 0.85
        sessions = self._auditor.sessions
        if path is None or not life.has_queue(path):
            return
        if sessions.requires_session(path):
            queue = life.namespace.entity(path)
            self._link_count += 1
            accept = SimulatedAccept(
                life, queue, session_id, peek_lock, self._link_count, patience
            )
            life.accepts.append(accept)

    def _holder(self, life: Life) -> SimulatedReceiver | None:
        """Mostly a receiver that should still hold its session, sometimes not."""
        holders = [item for item in life.receivers if item.session is not None]
        attached = [item for item in holders if item.is_attached]
        if attached and self._random.random() < 0.95:
            holders = attached
        return self._random.choice(holders) if holders else None

    def _renew_session(self, life: Life) -> None:
        holder = self._holder(life)
        if holder is not None and self._auditor.has_queue(holder.path):
            life.request(
                session_requests.renew_session(
                    life, holder.path, holder.session_id(), holder.number
                )
            )

    def _set_state(self, life: Life) -> None:
        holder = self._holder(life)
        value = self._random.choice((None, b"", b"half", b"done" * 20))
        if holder is not None and self._auditor.has_queue(holder.path):
            life.request(
                session_requests.set_state(
                    life, holder.path, holder.session_id(), value
                )
            )

    def _get_state(self, life: Life) -> None:
        holder = self._holder(life)
        if holder is not None and self._auditor.has_queue(holder.path):
            life.request(
                session_requests.get_state(life, holder.path, holder.session_id())
            )

    def _peek_session(self, life: Life) -> None:
        path = self._path()
        session_id = self._random.choice(SESSION_IDS)
        if path is not None and self._auditor.sessions.requires_session(path):
            life.request(_peek_session(life, path, session_id))


async def _peek_session(life: Life, path: str, session_id: str) -> None:
    await requests.peek(life, path, False, 0, 200, session_id)

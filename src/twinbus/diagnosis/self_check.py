"""The bus examines itself, once per second, from inside its loop.

    lag       each of the last turns of the loop was late by seconds
    stall     the owner of a store has work and does not turn
    lease     an owner serves although its lease has run out by its own clock
    counters  a fragment has other messages than its counters say

A restart mends all of these: what was confirmed is in the store, and nothing else is
believed. A store that is slow or away is no sickness of the broker.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from twinbus.broker.fragment import Fragment
from twinbus.broker.row_id import SEQUENCE_MASK
from twinbus.clock import Clock
from twinbus.diagnosis.sickness import Sickness
from twinbus.errors import ServiceBusError
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError

_LATE_MS: Final = 5_000
_LATE_LOOKS: Final = 5
"""So many looks in a row must be late. One may be: the disk was slow, or the machine
was busy with something else."""

_STOPPED_MS: Final = 2_000
"""A look that is so late says nothing of the owners: the process was stopped, as by a
signal or with its machine. They find out by themselves what they have lost."""

_COUNTED_MESSAGES: Final = 1_000
"""Fragments with more messages are not counted: that would take too long."""


class SelfCheck:
    """Of one server."""

    def __init__(
        self, owners: Sequence[StoreOwner], clock: Clock, stall_ms: int
    ) -> None:
        self._owners = owners
        self._clock = clock
        # How long an owner may have work without a turn.
        self._stall_ms = stall_ms
        self._looked_at = clock.monotonic()
        self._lags: deque[int] = deque(maxlen=_LATE_LOOKS)
        # Of each owner: its turns at the last look, and when that number was new.
        self._turns = {
            owner: (owner.health.turn_count, self._looked_at) for owner in owners
        }
        # Of each owner: those whose messages are counted next.
        self._fragments: dict[StoreOwner, Iterator[Fragment]] = {}

    def look(self, expected_ms: int) -> Sickness | None:
        """What is wrong. The last look should have been so long ago."""
        now = self._clock.monotonic()
        late_ms = now - self._looked_at - expected_ms
        self._looked_at = now
        self._lags.append(late_ms)
        if len(self._lags) == _LATE_LOOKS and min(self._lags) > _LATE_MS:
            text = f"the loop is late by {late_ms} ms, again and again"
            return Sickness("lag", text)
        if late_ms > _STOPPED_MS:
            # The whole process stood still: its owners must have a turn first.
            for owner in self._owners:
                self._turns[owner] = (owner.health.turn_count, now)
            return None
        for owner in self._owners:
            sickness = self._look_at(owner, now)
            if sickness is not None:
                return sickness
        return None

    def _look_at(self, owner: StoreOwner, now: int) -> Sickness | None:
        where = owner.store.location
        if owner.state is not OwnerState.SERVING or not owner.has_started:
            self._turns[owner] = (owner.health.turn_count, now)
            return None
        if owner.lease.is_over():
            return Sickness("lease", f"{where} is served after its lease ran out")
        turn_count, since = self._turns[owner]
        has_turned = turn_count != owner.health.turn_count
        if has_turned or not has_work(owner) or owner.is_committing:
            self._turns[owner] = (owner.health.turn_count, now)
        elif now - since > self._stall_ms:
            text = (
                f"the owner of {where} has work, and did nothing for {now - since} ms"
            )
            return Sickness("stall", text)
        return None

    async def count(self) -> Sickness | None:
        """Compare the counters of one small fragment of each store with its rows."""
        for owner in self._owners:
            fragment = self._next_fragment(owner)
            if fragment is None or owner.state is not OwnerState.SERVING:
                continue
            with suppress(StoreError, ServiceBusError):
                sickness = await self._count(owner, fragment)
                if sickness is not None:
                    return sickness
        return None

    def _next_fragment(self, owner: StoreOwner) -> Fragment | None:
        """The loaded fragments in turn."""
        fragment = next(self._fragments.get(owner, iter(())), None)
        if fragment is None:
            self._fragments[owner] = iter(owner.table.loaded())
            fragment = next(self._fragments[owner], None)
        return fragment

    async def _count(self, owner: StoreOwner, fragment: Fragment) -> Sickness | None:
        expected = fragment.active_count
        if expected > _COUNTED_MESSAGES or fragment.is_dropped:
            return None
        async with owner.reading:
            if not owner.changes.is_empty():
                return None
            expected = fragment.active_count
            found = await owner.store.outlines(
                fragment.number, 0, SEQUENCE_MASK, max(expected, 0) + 1
            )
            # Whatever happened meanwhile is in the open change set.
            if not owner.changes.is_empty() or fragment.is_dropped:
                return None
        if len(found) == expected:
            return None
        path = fragment.settings.path
        return Sickness(
            "counters", f"'{path}' counts {expected} active messages and has others"
        )


def has_work(owner: StoreOwner) -> bool:
    """The loop of the owner has something to do."""
    return owner.must_turn or not owner.is_idle()

"""What clients know of sessions: who holds which, the order, the state.

- one receiver at a time holds a session, until its lock ends, it is closed, or a fault;
- its messages are delivered only to its holder, the oldest ready one first;
- a lost session counts a delivery of each message that was locked in it, a closed one
  does not;
- its state is the last one that was acknowledged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from simulator.audited_message import (
    ACTIVE,
    AuditedMessage,
    AuditedQueue,
)
from simulator.history import History
from simulator.judgement import Judgement
from simulator.sighting import Sighting, Violation


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedSession:
    """A session that a receiver holds."""

    # Number of the receiver.
    holder: int
    locked_until: int
    # Receive-and-delete: the bus renews the lock, unless a message is locked.
    takes: bool = False
    # Its time has passed; another receiver may have it.
    is_over: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedState:
    """The state of a session."""

    may_be: set[bytes | None] = field(default_factory=lambda: {None})
    # Requests to set it that are in progress, by event.
    under_way: dict[int, bytes | None] = field(default_factory=dict)
    touched_event: int = 0

    def known(self) -> set[bytes | None]:
        return self.may_be.union(self.under_way.values())


class SessionAudit:
    """The sessions of all queues."""

    def __init__(
        self,
        history: History,
        judgement: Judgement,
        queues: Mapping[str, AuditedQueue],
        locked: dict[bytes, AuditedMessage],
    ) -> None:
        self._history = history
        self._judgement = judgement
        self._queues = queues
        # Messages with a lock that is not over, by token.
        self._locked = locked
        # A commit failed, and the bus has not restored everything yet: until then
        # current holders keep their sessions.
        self.is_void = False

    # --- time and faults ------------------------------------------------------

    def tell_time(self, now: int) -> None:
        for queue in self._queues.values():
            for held in queue.held.values():
                if held.locked_until <= now and not held.takes:
                    held.is_over = True

    def all_lost(self) -> None:
        self.is_void = False
        for queue in self._queues.values():
            queue.held.clear()

    # --- holding --------------------------------------------------------------

    def requires_session(self, path: str) -> bool:
        return path in self._queues and self._queues[path].requires_session

    def _messages(
        self, queue: AuditedQueue, session_id: str
    ) -> Iterator[AuditedMessage]:
        for message in self._judgement.of(queue):
            if message.session_id == session_id:
                yield message

    def granted(
        self,
        path: str,
        session_id: str,
        holder: int,
        locked_until: int,
        *,
        was_named: bool,
        takes: bool,
    ) -> None:
        """A receiver got the session that it named, or the next one."""
        queue = self._queues[path]
        held = queue.held.get(session_id)
        if held is not None and not held.is_over:
            raise Violation(
                f"session {session_id} of {path} is held by receiver {held.holder} "
                f"until {held.locked_until} and was given to receiver {holder}"
            )
        durations = {rules.lock_duration_ms for rules in queue.rules}
        if locked_until - self._history.now not in durations:
            raise Violation(
                f"the lock of session {session_id} ends at {locked_until}, now is "
                f"{self._history.now}"
            )
        if not was_named and not any(
            ACTIVE in self._judgement.may_be_at(message)
            for message in self._messages(queue, session_id)
        ):
            raise Violation(f"session {session_id} of {path} has no messages")
        self._count_lost(queue, session_id)
        queue.held[session_id] = AuditedSession(
            holder=holder, locked_until=locked_until, takes=takes
        )

    def _count_lost(self, queue: AuditedQueue, session_id: str) -> None:
        """The last holder of the session has lost its locked messages."""
        for message in self._messages(queue, session_id):
            lock = message.lock
            if lock is None or lock.is_settling or lock.place.startswith("dead"):
                continue
            message.count_low = max(message.count_low, lock.delivery_count + 1)
            self._locked.pop(lock.token, None)
            message.lock = None

    def refused(self, path: str, session_id: str) -> None:
        """The bus replied that another receiver holds the session."""
        queue = self._queues.get(path)
        if queue is None or queue.is_ending:
            return
        if session_id not in queue.held and not self.is_void:
            raise Violation(f"nobody holds session {session_id} of {path}")

    def renewed(self, path: str, session_id: str, locked_until: int) -> None:
        queue = self._queues[path]
        held = queue.held.get(session_id)
        if held is None and self.is_void:
            return
        if held is None or not self._may_last(held):
            raise Violation(f"session {session_id} of {path} is over and was renewed")
        # The clock may have been set back before the bus ended the lock.
        held.is_over = False
        held.locked_until = locked_until
        for message in self._messages(queue, session_id):
            lock = message.lock
            if lock is None or lock.is_settling:
                continue
            if not lock.place.startswith("dead"):
                lock.is_over = False
                lock.locked_until = locked_until
                self._locked[lock.token] = message

    def _may_last(self, held: AuditedSession) -> bool:
        return held.takes or self._history.now < held.locked_until

    def renew_refused(self, path: str, session_id: str, holder: int) -> None:
        queue = self._queues.get(path)
        held = None if queue is None or queue.is_ending else queue.held.get(session_id)
        if held is None or held.holder != holder or held.is_over:
            return
        if held.locked_until > self._history.now:
            raise Violation(f"the live session {session_id} could not be renewed")

    def closed(self, path: str, session_id: str, holder: int) -> None:
        """The holder closes the session: its locks end, and nothing is counted."""
        queue = self._queues.get(path)
        held = None if queue is None else queue.held.get(session_id)
        if queue is None or held is None or held.holder != holder:
            return
        del queue.held[session_id]
        for message in self._messages(queue, session_id):
            lock = message.lock
            if lock is not None and not lock.place.startswith("dead"):
                self._locked.pop(lock.token, None)
                message.lock = None

    def lost(self, path: str, session_id: str, holder: int) -> None:
        """The bus reported that the lock of the session has run out."""
        queue = self._queues.get(path)
        held = None if queue is None else queue.held.get(session_id)
        if queue is None or held is None or held.holder != holder:
            return
        if held.locked_until > self._history.now and not held.is_over:
            raise Violation(
                f"session {session_id} of {path} lasts until {held.locked_until} and "
                f"was lost at {self._history.now}"
            )
        del queue.held[session_id]

    # --- delivering -----------------------------------------------------------

    def check_delivery(
        self, message: AuditedMessage, seen: Sighting, locked_until: int
    ) -> None:
        """The message must be delivered to the holder of its session, in order."""
        held = message.queue.held.get(message.session_id)
        if held is None and self.is_void:
            return
        if held is None or held.is_over:
            raise Violation(
                f"{seen.uid} was delivered, and nobody holds its session "
                f"{message.session_id}"
            )
        if held.takes:
            held.locked_until = max(held.locked_until, locked_until)
        if locked_until != held.locked_until:
            raise Violation(
                f"the lock of {seen.uid} ends at {locked_until}, that of its session "
                f"at {held.locked_until}"
            )
        if seen.state == "active":
            self._check_order(message, seen)

    def _check_order(self, message: AuditedMessage, seen: Sighting) -> None:
        for other in self._messages(message.queue, message.session_id):
            if other is not message and self._is_before(other, message, seen):
                if self._is_ready(other):
                    raise Violation(
                        f"{seen.uid} was delivered, and {other.uid}, which is older, "
                        f"waits in the same session {message.session_id}"
                    )

    def _is_before(
        self, other: AuditedMessage, message: AuditedMessage, seen: Sighting
    ) -> bool:
        theirs = other.sequence_numbers.get("main")
        if theirs is not None:
            return theirs < seen.sequence_number
        is_direct = not other.scheduled_at and not message.scheduled_at
        return is_direct and 0 < other.accepted_event < message.sent_event

    def _is_ready(self, other: AuditedMessage) -> bool:
        return (
            other.lock is None
            and not other.under_way
            and not other.queue.is_ending
            and self._judgement.may_be_at(other) == {ACTIVE}
        )

    # --- states ---------------------------------------------------------------

    def _state(self, path: str, session_id: str) -> AuditedState:
        return self._queues[path].states.setdefault(session_id, AuditedState())

    def state_requested(self, path: str, session_id: str, value: bytes | None) -> None:
        """A new state was requested; the event number identifies the request."""
        state = self._state(path, session_id)
        state.touched_event = self._history.event
        # An empty state is the same as none.
        state.under_way[self._history.event] = value or None

    def state_answered(
        self, path: str, session_id: str, request: int, *, is_known: bool, is_set: bool
    ) -> None:
        """The result of the request; not known: it may have been set."""
        queue = self._queues.get(path)
        if queue is None or session_id not in queue.states:
            return
        state = queue.states[session_id]
        if request not in state.under_way:
            return
        state.touched_event = self._history.event
        value = state.under_way.pop(request)
        if not is_known:
            state.may_be.add(value)
        elif is_set:
            state.may_be = {value}

    def known_states(self, path: str, session_id: str) -> set[bytes | None]:
        return self._state(path, session_id).known()

    def state_read(
        self,
        path: str,
        session_id: str,
        value: bytes | None,
        *,
        before: set[bytes | None],
        since: int,
    ) -> None:
        """The state was requested at event `since`, when it was one of `before`."""
        if path not in self._queues:
            return
        state = self._state(path, session_id)
        if value not in before | state.known():
            raise Violation(
                f"the state of session {session_id} of {path} is {value!r}, not one "
                f"of {sorted(before | state.known(), key=repr)}"
            )
        if state.touched_event < since and not state.under_way:
            state.may_be = {value}

    def state_sizes(self, path: str) -> set[int]:
        """Possible total sizes of the queue's states."""
        states = self._queues[path].states.values()
        sizes = [{len(value or b"") for value in state.known()} for state in states]
        return {sum(choice) for choice in product(*sizes)}

    # --- listing --------------------------------------------------------------

    def listed(self, path: str, session_ids: set[str]) -> None:
        """No request is in progress, and these sessions have messages or a state."""
        queue = self._queues[path]
        sure: set[str] = set()
        possible: set[str] = set()
        for message in self._judgement.of(queue):
            if not message.session_id:
                continue
            places = self._judgement.may_be_at(message)
            if places & {ACTIVE}:
                possible.add(message.session_id)
            if places == {ACTIVE}:
                sure.add(message.session_id)
        for session_id, state in queue.states.items():
            if state.known() != {None}:
                possible.add(session_id)
            if None not in state.known():
                sure.add(session_id)
        if not sure <= session_ids <= possible:
            raise Violation(
                f"the sessions of {path} are {sorted(session_ids)}; they should be "
                f"{sorted(sure)} and perhaps {sorted(possible)}"
            )

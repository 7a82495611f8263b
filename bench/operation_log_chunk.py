"""Some thousand messages of generated operation logs, from their send to their end.

Everything is a column. A *life* is what happens to one copy of a message at the
primary: it arrives, is delivered, and ends. A message that is doubled has two lives,
and one that is lost has none.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PRIMARY = "site-a"
BACKLOG_QUEUES = tuple(f"{PRIMARY}/x-servicebus-transfer/{n}" for n in range(10))

_MILLISECOND = 1_000
_SECOND = 1_000_000
_FRAGMENTS = 16
# Of all messages: dead letters, expired, abandoned once, and renewed.
_DEAD, _EXPIRED, _ABANDONED, _RENEWED = 0.003, 0.005, 0.015, 0.025
# The last part of the time: what is sent then is not received any more.
_LAST_PART = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """When everything happens, in microseconds."""

    began: int
    span: int
    # From the beginning.
    outage: tuple[int, ...]
    skew: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedEntity:
    """Where messages are sent to, and where they are received."""

    path: str
    receives: str
    kind: str = "queue"
    receiving_kind: str = "queue"
    is_partitioned: bool = False
    is_forwarding: bool = False


QUEUE_COUNT = 20
ENTITIES = (
    *(
        GeneratedEntity(
            path=f"queue-{n:02d}", receives=f"queue-{n:02d}", is_partitioned=n % 2 == 0
        )
        for n in range(QUEUE_COUNT)
    ),
    GeneratedEntity(
        path="billing",
        receives="billing/subscriptions/audit",
        kind="topic",
        receiving_kind="subscription",
    ),
    GeneratedEntity(path="inbox", receives="archive", is_forwarding=True),
)
_PATHS = pa.array([one.path for one in ENTITIES])
_KINDS = pa.array([one.kind for one in ENTITIES])
_RECEIVES = pa.array([one.receives for one in ENTITIES])
_RECEIVING_KINDS = pa.array([one.receiving_kind for one in ENTITIES])
_PARTITIONED = pa.array([one.is_partitioned for one in ENTITIES])
_FORWARDING = pa.array([one.is_forwarding for one in ENTITIES])
# The bus puts their messages, or copies of them, somewhere else.
_MOVING = pa.array([one.path != one.receives for one in ENTITIES])
_QUEUES = pa.array(BACKLOG_QUEUES)


class Chunk:
    """Messages in a row, and their rows in the three logs."""

    def __init__(
        self, scene: Scene, seed: int, first: int, count: int, faults: dict[int, str]
    ) -> None:
        self._scene = scene
        self._count = count
        self._faults = faults
        self._seed = seed * 1_000_003 + first
        number = pc.cumulative_sum(pa.repeat(pa.scalar(1), count))
        self._number = pc.add(number, first)
        self._uid = self._made_uid()
        self._entity = self._drawn(len(ENTITIES), 3)
        self._fate = self._random(4)
        self._lag = self._random(5)
        self._size = pc.add(self._drawn(2_000, 6), 100)
        part = scene.span / scene.messages
        self._sent = _whole(pc.multiply(pc.cast(self._number, pa.float64()), part))
        self._away = _both(
            pc.greater_equal(self._sent, scene.outage[0]),
            pc.less(self._sent, scene.outage[1]),
        )
        self._read_faults()

    def _random(self, stream: int) -> Any:
        return pc.random(self._count, initializer=self._seed * 10 + stream)

    def _drawn(self, below: int, stream: int) -> Any:
        return _whole(pc.multiply(self._random(stream), below))

    def _made_uid(self) -> Any:
        """That of a send id: 32 digits, all of them decimal here."""
        halves = [
            pc.cast(pc.add(self._drawn(9 * 10**14, stream), 10**14), pa.string())
            for stream in (1, 2)
        ]
        return pc.binary_join_element_wise("5e", *halves, "")

    def _read_faults(self) -> None:
        def those(kind: str, *rests: int) -> Any:
            chosen = {
                at
                for at, found in self._faults.items()
                if found == kind and at % 2 in rests
            }
            return pa.array([at in chosen for at in range(self._count)])

        self._lost = those("lost", 0, 1)
        self._misrouted = those("misrouted", 0, 1)
        doubled = those("duplicated", 0, 1)
        is_here = pc.invert(self._away)
        # Sent twice; sent, and diverted because the answer was lost; restored twice.
        self._sent_twice = _both(those("duplicated", 0), is_here)
        self._sent_both_ways = _both(those("duplicated", 1), is_here)
        self._restored_twice = _both(doubled, self._away)
        self._diverted = pc.or_(self._away, self._sent_both_ways)
        planted = pa.array([at in self._faults for at in range(self._count)])
        # A planted fault is the only thing that is wrong with its message.
        self._fate = pc.if_else(planted, 1.0, self._fate)
        other = pc.add(self._entity, 1)
        other = pc.if_else(pc.greater_equal(other, QUEUE_COUNT), 0, other)
        self._reached = pc.if_else(self._misrouted, other, self._entity)

    def planted(self) -> list[tuple[str, str, str]]:
        return [
            (
                kind,
                self._uid[at].as_py(),
                ENTITIES[self._entity[at].as_py()].path,
            )
            for at, kind in sorted(self._faults.items())
        ]

    def tally(self) -> dict[str, int]:
        there = pc.invert(self._lost)
        waits = _both(self._is_late(self._arrived()), pc.invert(self._away))
        received = _both(there, pc.invert(waits))
        dead = _both(received, pc.less(self._fate, _DEAD))
        return {
            "diverted": _true(self._diverted),
            "in_flight": _true(_both(waits, there)),
            "dead_lettered": _true(dead),
            "expired": _true(_both(received, self._fate_in(_DEAD, _EXPIRED))),
        }

    # --- times ----------------------------------------------------------------

    def _arrived(self) -> Any:
        return pc.add(self._sent, 3 * _MILLISECOND)

    def _restored(self) -> Any:
        """Ten times as fast as they came, when the primary is back."""
        start, end = self._scene.outage
        waited = pc.divide(pc.subtract(self._sent, start), 10)
        back = pc.add(waited, end + _SECOND)
        # One that was sent both ways is restored a second later.
        return pc.if_else(self._away, back, pc.add(self._sent, _SECOND))

    def _is_late(self, moment: Any) -> Any:
        return pc.greater(moment, int(self._scene.span * _LAST_PART))

    def _fate_in(self, low: float, high: float) -> Any:
        return _both(
            pc.greater_equal(self._fate, low),
            pc.less(self._fate, high),
        )

    # --- the three logs -------------------------------------------------------

    def sender(self) -> pa.Table:
        """What the paired sender did."""
        common = self._place(self._entity, is_sent=True)
        actor = {"key_name": "senders", "client": "sender-1", "purpose": "pairing"}
        unknown = {**common, **actor, "result": "unknown"}
        ok = {**common, **actor, "result": "ok"}
        end = pc.add(self._sent, 6 * _MILLISECOND)
        return self._sorted(
            self._rows("send", self._sent_both_ways, end, unknown),
            self._rows("send", pc.invert(self._diverted), end, ok),
            self._rows(
                "divert", self._diverted, end, {**ok, "destination": self._queue()}
            ),
        )

    def secondary(self) -> pa.Table:
        """What the backlog queues saw."""
        skew = self._scene.skew
        place = {
            "entity": self._queue(),
            "entity_kind": "queue",
            "generation": "5eed",
            "fragment": 0,
            "sequence_number": self._number,
            "size_bytes": self._size,
        }
        target = pc.take(_PATHS, self._entity)
        sender = {**place, "key_name": "senders", "client": "sender-1"}
        syphon = {**place, "key_name": "syphon", "client": "host-1"}
        syphon["purpose"] = "syphon"
        back = self._restored()
        age = pc.divide(pc.subtract(back, self._sent), _MILLISECOND)
        taken = {**syphon, "age_ms": age, "delivery_count": 1}
        come = pc.add(self._sent, 5 * _MILLISECOND + skew)
        locked = pc.add(back, skew - 10 * _MILLISECOND)
        done = pc.add(back, skew + 10 * _MILLISECOND)
        return self._sorted(
            self._rows(
                "divert", self._diverted, come, {**sender, "destination": target}
            ),
            self._rows("lock", self._diverted, locked, taken),
            self._rows("complete", self._diverted, done, taken),
        )

    def primary(self) -> pa.Table:
        """What the entities saw: up to two lives of a message."""
        there = pc.invert(self._lost)
        sent = _both(pc.invert(self._away), there)
        restored = _both(self._diverted, there)
        back = self._restored()
        again = pc.add(back, 7 * _SECOND)
        return self._sorted(
            *self._life("send", sent, self._arrived(), copy=0),
            *self._life("send", self._sent_twice, pc.add(self._sent, _SECOND), copy=1),
            *self._life("restore", restored, back, copy=2),
            *self._life("restore", self._restored_twice, again, copy=3),
        )

    def _life(self, creation: str, mask: Any, at: Any, copy: int) -> list[pa.Table]:
        come = self._place(self._reached, is_sent=True, copy=copy)
        # The origin of a restored message is its backlog queue.
        by = "syphon" if creation == "restore" else "senders"
        actor = {"key_name": by, "client": f"{by}-1", "purpose": "link"}
        if creation == "restore":
            actor["purpose"] = "syphon"
        tables = [
            self._rows(creation, mask, at, {**come, **actor, "latency_ms": self._lag}),
            self._rows(
                "forward",
                _both(mask, pc.take(_FORWARDING, self._reached)),
                pc.add(at, _MILLISECOND),
                {**come, "destination": pc.take(_RECEIVES, self._reached)},
            ),
            self._rows(
                "arrive",
                _both(mask, pc.take(_MOVING, self._reached)),
                pc.add(at, _MILLISECOND),
                self._place(self._reached, is_sent=False, copy=copy),
            ),
        ]
        is_late = _both(self._is_late(at), pc.invert(self._away))
        return tables + self._received(_both(mask, pc.invert(is_late)), at, copy)

    def _received(self, mask: Any, at: Any, copy: int) -> list[pa.Table]:
        place = self._place(self._reached, is_sent=False, copy=copy)
        place = {**place, "key_name": "receivers", "client": "host-2"}
        place["purpose"] = "link"
        waited = _whole(pc.multiply(self._lag, _SECOND))
        locked = pc.add(pc.add(at, 20 * _MILLISECOND), waited)
        again = pc.add(locked, _SECOND)
        ended = pc.add(locked, 1_200 * _MILLISECOND)
        age = pc.divide(pc.subtract(locked, at), _MILLISECOND)
        once = {**place, "age_ms": age, "delivery_count": 1}
        twice = {**once, "delivery_count": 2}
        is_expired = _both(mask, self._fate_in(_DEAD, _EXPIRED))
        is_taken = _both(mask, pc.invert(self._fate_in(_DEAD, _EXPIRED)))
        is_dead = _both(mask, pc.less(self._fate, _DEAD))
        is_abandoned = _both(mask, self._fate_in(_EXPIRED, _ABANDONED))
        is_renewed = _both(mask, self._fate_in(_ABANDONED, _RENEWED))
        is_done = _both(is_taken, pc.greater_equal(self._fate, _DEAD))
        bus = {**once, "key_name": pa.nulls(self._count, pa.string())}
        dead = {**once, "reason": "BadOrder"}
        buried = {**bus, "reason": "BadOrder", "subqueue": "$deadletterqueue"}
        middle = pc.add(locked, 500 * _MILLISECOND)
        return [
            self._rows("lock", is_taken, locked, once),
            self._rows("abandon", is_abandoned, middle, once),
            self._rows("lock", is_abandoned, again, twice),
            self._rows("renew", is_renewed, middle, {**once, "amount": 2}),
            self._rows("dead_letter", is_dead, ended, dead),
            self._rows("arrive", is_dead, ended, buried),
            self._rows("expire", is_expired, locked, bus),
            self._rows("complete", is_done, ended, once),
        ]

    # --- columns --------------------------------------------------------------

    def _queue(self) -> Any:
        index = _whole(pc.multiply(self._lag, len(BACKLOG_QUEUES)))
        return pc.take(_QUEUES, index)

    def _place(self, entity: Any, *, is_sent: bool, copy: int = 0) -> dict[str, Any]:
        paths, kinds = (_PATHS, _KINDS) if is_sent else (_RECEIVES, _RECEIVING_KINDS)
        number = pc.add(self._number, copy * self._scene.messages)
        index = pc.bit_wise_and(self._number, _FRAGMENTS - 1)
        fragment = pc.if_else(pc.take(_PARTITIONED, entity), index, 0)
        return {
            "entity": pc.take(paths, entity),
            "entity_kind": pc.take(kinds, entity),
            "generation": "5eed",
            "fragment": fragment,
            "sequence_number": pc.add(number, pc.shift_left(fragment, 48)),
            "size_bytes": self._size,
        }

    def _rows(
        self, operation: str, mask: Any, at: Any, columns: dict[str, Any]
    ) -> pa.Table:
        """One operation on the messages of a mask."""
        moment = pc.filter(pc.add(at, self._scene.began), mask)
        count = len(moment)
        found: dict[str, Any] = {
            "occurred_at": pc.cast(moment, pa.timestamp("us", tz="UTC")),
            "operation": pa.repeat(pa.scalar(operation), count),
            "message_uid": pc.filter(self._uid, mask),
        }
        if operation in ("send", "restore", "divert"):
            found["message_id"] = found["message_uid"]
        for name, value in columns.items():
            is_column = isinstance(value, pa.Array | pa.ChunkedArray)
            found[name] = (
                pc.filter(value, mask)
                if is_column
                else pa.repeat(pa.scalar(value), count)
            )
        for name in ("fragment", "delivery_count"):
            if name in found:
                found[name] = pc.cast(found[name], pa.int32())
        return pa.table(found)

    def _sorted(self, *tables: pa.Table) -> pa.Table:
        joined = pa.concat_tables(tables, promote_options="default")
        return joined.sort_by("occurred_at")


def _whole(numbers: Any) -> Any:
    return pc.cast(pc.floor(numbers), pa.int64())


def _both(one: Any, other: Any) -> Any:
    return pc.and_(one, other)


def _true(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)

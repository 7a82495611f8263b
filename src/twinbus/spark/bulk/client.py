"""The bulk requests of a twinbus namespace, typed.

The API itself is described in docs/reference/bulk.md.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twinbus.limits import BULK_ENTITIES
from twinbus.spark.bulk.channel import Answer, Channel
from twinbus.spark.bulk.errors import BulkError, NoHttp
from twinbus.spark.connection import SparkConnection
from twinbus.spark.packing import Range
from twinbus.spark.read_options import STATES

if TYPE_CHECKING:
    import pyarrow as pa

_FRAGMENT_BITS: Final = 48
"""The bits above are the index of the fragment."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentBounds:
    """The bounds of one fragment."""

    index: int
    first: int | None
    next: int
    active_count: int
    # Deferred and scheduled.
    other_count: int
    deferred_count: int
    lease_reader: str | None
    lease_epoch: str | None

    @property
    def base(self) -> int:
        """No sequence number of the fragment is lower."""
        return self.index << _FRAGMENT_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityBounds:
    """An entity as it is now."""

    path: str
    generation: str
    created_at: int
    fragments: Sequence[FragmentBounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """Where to begin in an entity, and optional bounds."""

    path: str
    generation: str
    firsts: Mapping[int, int]
    ends: Mapping[int, int] = field(default_factory=dict)
    epoch: str | None = None
    from_time: int | None = None
    to_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A range to read of one fragment."""

    path: str
    fragment: int
    first: int
    end: int
    splits: Sequence[Range]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkSettlement:
    """Which messages of an entity to settle, and up to which number all are done."""

    path: str
    epoch: str
    ends: Mapping[int, int] = field(default_factory=dict)
    defer: Sequence[int] = ()
    complete: Sequence[int] = ()
    # Number, reason, description.
    dead_letter: Sequence[tuple[int, str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that was refused."""

    row: int
    condition: str
    text: str
    is_retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The result of an append."""

    applied_count: int
    known: Sequence[int]
    refused: Sequence[Refused]


class BulkClient:
    """Talks to one namespace. Not shared between threads."""

    def __init__(self, connection: SparkConnection, patience_ms: int) -> None:
        self._channel = Channel(connection, patience_ms)

    @property
    def address(self) -> str:
        return self._channel.address

    @property
    def host(self) -> str:
        """The host of the namespace, as in the restore ledger."""
        return self._channel.host

    def close(self) -> None:
        self._channel.close()

    def offered(self) -> frozenset[str]:
        """Which requests this namespace knows; none of them if it is not twinbus.
        Raises BulkError."""
        try:
            answer = self._channel.request("/$bulk", method="GET", is_probe=True).json()
        except NoHttp:
            return frozenset()
        except BulkError as error:
            # Refused, or not reached at all: the namespace is still unknown.
            if error.status in (0, 401, 403) or error.is_retryable:
                raise
            return frozenset()
        except ValueError:
            return frozenset()
        return frozenset(answer.get("requests", ()))

    def namespace_id(self) -> str:
        """What tells this namespace from every other: its name, and when it was made.
        Raises BulkError."""
        answer = self._channel.request("/$bulk", method="GET").json()
        found = answer.get("namespace")
        if not isinstance(found, dict):
            # An older twinbus does not tell.
            return self.host
        return f"{found['name']}@{found['created_at']}"

    def runtime(
        self, paths: Sequence[str] = (), pattern: str | None = None
    ) -> tuple[list[EntityBounds], list[str]]:
        """The entities that exist, and the names of those that do not."""
        found: list[EntityBounds] = []
        missing: list[str] = []
        asked: list[dict[str, Any]] = [
            {"entities": list(portion)} for portion in _portions(paths)
        ]
        if pattern is not None:
            asked.append({"pattern": pattern})
        for content in asked:
            answer = self._channel.post("runtime", content)
            found += [_bounds(entity) for entity in answer["entities"]]
            missing += answer["missing"]
        return found, missing

    def take(
        self, reader: str, duration_ms: int, paths: Sequence[str]
    ) -> dict[str, str]:
        """Epochs by path. Raises BulkError if somebody else holds one."""
        entities: list[dict[str, str]] = [{"path": path} for path in paths]
        return self._lease(reader, duration_ms, entities)

    def renew(
        self, reader: str, duration_ms: int, epochs: Mapping[str, str]
    ) -> dict[str, str]:
        """Raises BulkError if one is lost."""
        entities = [{"path": path, "epoch": epoch} for path, epoch in epochs.items()]
        return self._lease(reader, duration_ms, entities)

    def _lease(
        self, reader: str, duration_ms: int, entities: list[dict[str, str]]
    ) -> dict[str, str]:
        granted: dict[str, str] = {}
        for portion in _portions(entities):
            answer = self._channel.post(
                "lease",
                {"reader": reader, "duration_ms": duration_ms, "entities": portion},
            )
            for entity, lease in zip(portion, answer["leases"], strict=True):
                granted[entity["path"]] = lease["epoch"]
        return granted

    def release(self, reader: str, epochs: Mapping[str, str]) -> None:
        entities = [{"path": path, "epoch": epoch} for path, epoch in epochs.items()]
        for portion in _portions(entities):
            content = {"reader": reader, "entities": portion, "release": True}
            self._channel.post("lease", content)

    def plan(
        self,
        parts: Sequence[PlanPart],
        *,
        reader: str = "",
        max_messages: int | None = None,
        max_bytes: int | None = None,
        split_messages: int | None = None,
        is_aligned: bool = False,
    ) -> list[Planned]:
        """What to read next of each fragment of each entity. If there are too many
        entities for one request, each request gets its share of the limits; alignment
        by time is impossible then."""
        if is_aligned and len(parts) > BULK_ENTITIES:
            raise BulkError(
                f"{len(parts)} entities have messages; alignment by time reaches over "
                f"{BULK_ENTITIES}. Read fewer at a time, or without 'alignment'."
            )
        found: list[Planned] = []
        for portion in _portions(parts):
            limits = {
                "max_messages": _share(max_messages, portion, parts),
                "max_bytes": _share(max_bytes, portion, parts),
                "split_messages": split_messages,
            }
            content = {
                **({"reader": reader} if reader else {}),
                **{name: value for name, value in limits.items() if value is not None},
                "aligned": is_aligned,
                "entities": [_plan_part(part) for part in portion],
            }
            answer = self._channel.post("plan", content)
            by_path = {part.path.lower(): part for part in portion}
            found += [
                _planned(by_path[fragment["path"].lower()], fragment)
                for fragment in answer["fragments"]
            ]
        return found

    def browse(
        self,
        found: Range,
        columns: Sequence[str],
        states: Sequence[str] = (),
        sessions: Sequence[str] = (),
    ) -> "Iterator[pa.RecordBatch]":
        """The messages of a range, batch by batch; of these sessions, if any."""
        import pyarrow as pa

        at = found.first
        while at < found.end:
            answer = self._browse(found, at, columns, states, sessions=sessions)
            with pa.ipc.open_stream(answer.body) as stream:
                yield from stream
            at = int(answer.headers["x-twinbus-next"])

    def enqueued_from(self, found: Range) -> tuple[int, int] | None:
        """Number and enqueued time, in milliseconds, of the first message of a range,
        whatever its state."""
        import pyarrow as pa

        columns = ("sequence_number", "enqueued_time")
        answer = self._browse(found, found.first, columns, STATES, max_bytes=1)
        with pa.ipc.open_stream(answer.body) as stream:
            first = stream.read_all().slice(0, 1)
        if not first.num_rows:
            return None
        number, enqueued_us = (column.cast(pa.int64())[0].as_py() for column in first)
        return number, enqueued_us // 1000

    def _browse(
        self,
        found: Range,
        first: int,
        columns: Sequence[str],
        states: Sequence[str],
        *,
        sessions: Sequence[str] = (),
        **limits: int,
    ) -> Answer:
        content = {
            "path": found.path,
            "generation": found.generation,
            "fragment": found.fragment,
            "from": first,
            "to": found.end,
            "columns": list(columns),
            **({"states": list(states)} if states else {}),
            **({"sessions": list(sessions)} if sessions else {}),
            **limits,
        }
        return self._channel.request("/$bulk/browse", json.dumps(content).encode())

    def settle(self, reader: str, verdicts: Sequence[BulkSettlement]) -> int:
        """Settle messages; returns how many were settled. Raises BulkError if a lease
        is lost."""
        settled = 0
        for portion in _portions(verdicts):
            content = {"reader": reader, "entities": [_verdict(v) for v in portion]}
            answer = self._channel.post("settle", content)
            settled += sum(
                entity["completed"] + entity["deferred"] + entity["dead_lettered"]
                for entity in answer["entities"]
            )
        return settled

    def append(self, rows: "pa.Table | pa.RecordBatch") -> AppendResult:
        """Send messages: columns `entity` and `message`."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows)
        answer = self._channel.request(
            "/$bulk/append", sink.getvalue().to_pybytes()
        ).json()
        return AppendResult(
            applied_count=answer["applied"],
            known=answer["known"],
            refused=[
                Refused(
                    row=refused["row"],
                    condition=refused["condition"],
                    text=refused["message"],
                    is_retryable=refused["retryable"],
                )
                for refused in answer["refused"]
            ],
        )


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split into parts that fit into a request."""
    for at in range(0, len(items), BULK_ENTITIES):
        yield items[at : at + BULK_ENTITIES]


def _share(
    limit: int | None, portion: Sequence[PlanPart], parts: Sequence[PlanPart]
) -> int | None:
    return None if limit is None else max(1, limit * len(portion) // len(parts))


def _bounds(entity: Mapping[str, Any]) -> EntityBounds:
    return EntityBounds(
        path=entity["path"],
        generation=entity["generation"],
        created_at=entity["created_at"],
        fragments=[
            FragmentBounds(
                index=fragment["index"],
                first=fragment["first"],
                next=fragment["next"],
                active_count=fragment["active_count"],
                other_count=fragment["deferred_count"] + fragment["scheduled_count"],
                deferred_count=fragment["deferred_count"],
                lease_reader=(fragment["lease"] or {}).get("reader"),
                lease_epoch=(fragment["lease"] or {}).get("epoch"),
            )
            for fragment in entity["fragments"]
        ],
    )


def _plan_part(part: PlanPart) -> dict[str, Any]:
    content: dict[str, Any] = {
        "path": part.path,
        "generation": part.generation,
        "from": {str(index): number for index, number in part.firsts.items()},
    }
    if part.ends:
        content["to"] = {str(index): number for index, number in part.ends.items()}
    for name, value in (
        ("epoch", part.epoch),
        ("from_time", part.from_time),
        ("to_time", part.to_time),
    ):
        if value is not None:
            content[name] = value
    return content


def _planned(part: PlanPart, answer: Mapping[str, Any]) -> Planned:
    return Planned(
        path=part.path,
        fragment=answer["fragment"],
        first=answer["from"],
        end=answer["to"],
        splits=[
            Range(
                path=part.path,
                generation=part.generation,
                fragment=answer["fragment"],
                first=first,
                end=end,
                message_count=message_count,
                size_bytes=size_bytes,
            )
            for first, end, message_count, size_bytes in answer["splits"]
        ],
    )


def _verdict(verdict: BulkSettlement) -> dict[str, Any]:
    return {
        "path": verdict.path,
        "epoch": verdict.epoch,
        "to": {str(index): number for index, number in verdict.ends.items()},
        "defer": list(verdict.defer),
        "complete": list(verdict.complete),
        "dead_letter": [
            {"sequence_number": number, "reason": reason, "description": description}
            for number, reason, description in verdict.dead_letter
        ],
    }

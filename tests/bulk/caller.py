"""Bulk requests by hand: any body, any token, and the raw answers."""

import http.client
import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from twinbus.auth import sas
from twinbus.testing import Bus

READER = "reader-1"
# A bound against hanging; never waited out.
PATIENCE_SECONDS = 60.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    @property
    def error(self) -> dict[str, Any]:
        """Of a refusal, which has to be one of the bulk requests."""
        assert self.headers["content-type"] == "application/json"
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"condition", "message", "entity", "retryable"}
        return error

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and condition, without the prefix."""
        return self.status, self.error["condition"].removeprefix("com.microsoft:")

    @property
    def table(self) -> pa.Table:
        assert self.status == 200, self.body
        assert self.headers["content-type"] == "application/vnd.apache.arrow.stream"
        return pa.ipc.open_stream(self.body).read_all()


class Caller:
    """A client of the bus at a port, with one token for all that it asks."""

    def __init__(self, port: int, token: str) -> None:
        self.token = token
        self._http = http.client.HTTPConnection("127.0.0.1", port, PATIENCE_SECONDS)

    def close(self) -> None:
        self._http.close()

    def use(self, connected: socket.socket) -> None:
        """In place of a connection to the port."""
        self._http.sock = connected

    # --- requests -------------------------------------------------------------

    def request(
        self, method: str, target: str, body: bytes = b"", token: str | None = None
    ) -> Answer:
        token = self.token if token is None else token
        headers = {"authorization": token} if token else {}
        self._http.request(method, target, body, headers)
        response = self._http.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())

    def ask(self, name: str, content: Any, token: str | None = None) -> Answer:
        """Whatever the answer is."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.request("POST", f"/$bulk/{name}", body, token)

    def post(self, name: str, **content: Any) -> dict[str, Any]:
        """The answer, which has to be a good one."""
        answer = self.ask(name, content)
        assert answer.status == 200, answer.body
        return answer.json

    def offer(self) -> dict[str, Any]:
        answer = self.request("GET", "/$bulk")
        assert answer.status == 200, answer.body
        return answer.json

    # --- what a reader does ---------------------------------------------------

    def runtime(self, path: str) -> dict[str, Any]:
        """Of an entity that is there."""
        [found] = self.post("runtime", entities=[path])["entities"]
        assert isinstance(found, dict)
        return found

    def fragment(self, path: str) -> dict[str, Any]:
        """Bounds and counts of the one fragment."""
        [found] = self.runtime(path)["fragments"]
        assert isinstance(found, dict)
        return found

    def generation(self, path: str) -> str:
        return str(self.runtime(path)["generation"])

    def lease(
        self, *paths: str, reader: str = READER, duration_ms: int = 60_000
    ) -> list[str]:
        """Take the leases; gives their epochs."""
        entities = [{"path": path} for path in paths]
        answer = self.post(
            "lease", reader=reader, duration_ms=duration_ms, entities=entities
        )
        assert [lease["path"] for lease in answer["leases"]] == list(paths)
        return [lease["epoch"] for lease in answer["leases"]]

    def plan(
        self,
        path: str,
        *,
        epoch: str | None = None,
        first: int | None = None,
        reader: str = READER,
        limits: Mapping[str, Any] | None = None,
        **bounds: Any,
    ) -> dict[str, Any]:
        """What is planned of one entity."""
        entity = {"path": path, "generation": self.generation(path), **bounds}
        if epoch is not None:
            entity["epoch"] = epoch
        if first is not None:
            entity["from"] = {"0": first}
        answer = self.post("plan", reader=reader, entities=[entity], **(limits or {}))
        [planned] = answer["fragments"]
        assert isinstance(planned, dict)
        return planned

    def browse(self, path: str, first: int = 0, end: int = 1000, **more: Any) -> Answer:
        content = {"path": path, "from": first, "to": end, **more}
        content.setdefault("generation", self.generation(path))
        answer = self.ask("browse", content)
        assert answer.status == 200, answer.body
        return answer

    def rows(self, path: str, **more: Any) -> list[dict[str, Any]]:
        """All messages of a range, over as many answers as that takes."""
        found: list[dict[str, Any]] = []
        first, end = more.pop("first", 0), more.pop("end", 1000)
        while first < end:
            answer = self.browse(path, first, end, **more)
            found += answer.table.to_pylist()
            following = int(answer.headers["x-twinbus-next"])
            assert first < following <= end
            first = following
        return found

    def bodies(self, path: str, **more: Any) -> list[str]:
        rows = self.rows(path, columns=["body"], **more)
        return [row["body"].decode() for row in rows]

    def settle(
        self, path: str, epoch: str, *, reader: str = READER, **what: Any
    ) -> dict[str, Any]:
        """What became of one entity's messages; `to` is of the one fragment."""
        if isinstance(what.get("to"), int):
            what["to"] = {"0": what["to"]}
        entity = {"path": path, "epoch": epoch, **what}
        [settled] = self.post("settle", reader=reader, entities=[entity])["entities"]
        assert isinstance(settled, dict)
        return settled

    # --- what a writer does ---------------------------------------------------

    def append(self, rows: Iterable[tuple[str, bytes]]) -> dict[str, Any]:
        """Encoded messages, each with its entity."""
        answer = self.ask("append", append_body(rows))
        assert answer.status == 200, answer.body
        return answer.json


def append_body(rows: Iterable[tuple[Any, Any]]) -> bytes:
    pairs = list(rows)
    return arrow(
        entity=pa.array([entity for entity, _ in pairs], pa.string()),
        message=pa.array([message for _, message in pairs], pa.binary()),
    )


def arrow(**columns: Any) -> bytes:
    """An IPC stream with these columns."""
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def token_of(
    bus: Bus,
    *,
    claims: Sequence[str] = (),
    resource: str = "",
    seconds: float = 600,
    key: str = "",
) -> str:
    """A token of the root key, or of the rule with just these claims; it expires by
    the clock of the bus."""
    key_name, own_key = bus.key_name, bus.key
    if claims:
        name = "".join(claims).lower()
        key_name, own_key = f"{name}-rule", f"key-of-{name}"
    return sas.make(
        resource=f"http://localhost:{bus.port}/{resource}",
        key_name=key_name,
        key=key or own_key,
        expires_at=int(bus.clock.now() + seconds * 1000),
    )

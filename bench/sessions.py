"""`python -m bench.sessions`: what a million sessions in one queue cost.

A message for each is sent, then receivers accept the next session again and again:
attach, receive its message, complete it, detach. Then a restart on what is left, the
first session after it, and a list of them all. For few sessions and for many: memory
must not know how many there are. Memory is the most the process ever held, without
pages of files; the client is Python, and its CPU is part of the rates.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import usage_of_tree
from bench.results import origin_of, write_results
from bench.tables import markdown_table
from bench.twinbus_server import IS_PLAIN, TwinbusServer
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    Source,
    encode_message,
)
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import AmqpArray, Int, Symbol, Timestamp
from twinbus.client import ClientConnection, connect
from twinbus.encoding.batch import BATCH_FORMAT

FEW = 1_000
MANY = 1_000_000
_ACCEPTED = 5_000
_RECEIVERS = 64
_BATCH = 500
_BATCHES_UNDER_WAY = 8
_PAGE = 1_000
_QUEUE = "bench"
_CONFIG = f"""\
[queues.{_QUEUE}]
requires_session = true
max_size_in_megabytes = 5120
"""
_FILTER = Symbol("com.microsoft:session-filter")
_ALL = Timestamp(253_402_300_800_000)


@dataclass(frozen=True, slots=True)
class SessionsResult:
    """A server with a queue of that many sessions."""

    count: int
    load_seconds: float
    data_bytes: int
    # Of memory: after loading, and after the work that followed a restart.
    loaded_bytes: int
    worked_bytes: int
    accepted_per_second: float
    start_seconds: float
    first_accept_ms: float
    list_seconds: float


async def measure_sessions(count: int, is_plain: bool) -> SessionsResult:
    """Load them, accept some, restart, accept and list."""
    with TwinbusServer(is_plain, _CONFIG) as server:
        async with await _connect(server) as client:
            began = time.monotonic()
            await _load(client, count)
            load_seconds = time.monotonic() - began
            loaded_bytes = usage_of_tree(server.pid).anonymous_bytes
            accepted = min(_ACCEPTED, count // 4)
            rate = await _accept_many(client, accepted)
        server.stop()
        data_bytes = server.data_bytes
        server.start()
        async with await _connect(server) as client:
            began = time.monotonic()
            await _accept(client)
            first_accept_ms = 1000 * (time.monotonic() - began)
            await _accept_many(client, accepted)
            began = time.monotonic()
            listed = await _list(client)
            list_seconds = time.monotonic() - began
        assert listed == count - 2 * accepted - 1, listed
        return SessionsResult(
            count=count,
            load_seconds=load_seconds,
            data_bytes=data_bytes,
            loaded_bytes=loaded_bytes,
            worked_bytes=usage_of_tree(server.pid).anonymous_bytes,
            accepted_per_second=rate,
            start_seconds=server.ready_seconds,
            first_accept_ms=first_accept_ms,
            list_seconds=list_seconds,
        )


async def _connect(server: TwinbusServer) -> ClientConnection:
    target = server.target
    sasl = plain(target.user, target.password)
    return await connect("127.0.0.1", target.port, sasl=sasl)


async def _load(client: ClientConnection, count: int) -> None:
    """One message to each session, in batches."""
    sender = await client.sender(_QUEUE)
    waiting: list[bytes] = []
    for batch in _batches(count):
        waiting.append(batch)
        if len(waiting) == _BATCHES_UNDER_WAY:
            await sender.send_many(waiting, message_format=BATCH_FORMAT)
            waiting = []
    await sender.send_many(waiting, message_format=BATCH_FORMAT)
    await sender.close()


def _batches(count: int) -> Iterator[bytes]:
    for start in range(0, count, _BATCH):
        numbers = range(start, min(start + _BATCH, count))
        sections = [encode_message(Message(body=Data((_message(n),)))) for n in numbers]
        yield b"".join(sections)


def _message(number: int) -> bytes:
    properties = Properties(group_id=f"session-{number:08}")
    return encode_message(Message(properties=properties, body=Data((b"x" * 100,))))


async def _accept_many(client: ClientConnection, count: int) -> float:
    """How many sessions a second receivers accept, empty and give up."""
    shares = [count // _RECEIVERS + (n < count % _RECEIVERS) for n in range(_RECEIVERS)]
    began = time.monotonic()
    await asyncio.gather(*(_accept_some(client, share) for share in shares))
    return count / (time.monotonic() - began)


async def _accept_some(client: ClientConnection, count: int) -> None:
    for _ in range(count):
        await _accept(client)


async def _accept(client: ClientConnection) -> None:
    """Accept the next session, complete its message, give it up."""
    receiver = await client.receiver(_QUEUE, credit=1, source_filter={_FILTER: None})
    source = receiver.source
    assert isinstance(source, Source) and (source.filter or {})[_FILTER]
    [message] = await receiver.receive_batch(1)
    await receiver.settle_confirmed(message.delivery_id, message.delivery_id)
    await receiver.close()


async def _list(client: ClientConnection) -> int:
    """How many sessions the list has, page by page."""
    listed = 0
    while True:
        body = {"last-updated-time": _ALL, "skip": Int(listed), "top": Int(_PAGE)}
        response = await client.request(
            f"{_QUEUE}/$management",
            Message(
                application_properties={
                    "operation": "com.microsoft:get-message-sessions"
                },
                body=AmqpValue(body),
            ),
        )
        if (response.application_properties or {}).get("statusCode") == 204:
            return listed
        assert isinstance(response.body, AmqpValue)
        assert isinstance(response.body.value, dict)
        page = response.body.value["sessions-ids"]
        assert isinstance(page, AmqpArray)
        listed += len(page.items)


def sessions_table(results: list[SessionsResult]) -> str:
    columns = (
        "sessions",
        "load s",
        "data MB",
        "loaded MB",
        "at work MB",
        "accepted/s",
        "restart s",
        "first accept ms",
        "list all s",
    )
    rows = [
        (
            f"{one.count:,}",
            f"{one.load_seconds:.1f}",
            f"{one.data_bytes / 1e6:,.0f}",
            f"{one.loaded_bytes / 1e6:,.0f}",
            f"{one.worked_bytes / 1e6:,.0f}",
            f"{one.accepted_per_second:,.0f}",
            f"{one.start_seconds:.2f}",
            f"{one.first_accept_ms:.1f}",
            f"{one.list_seconds:.1f}",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    counts = [int(count) for count in options.counts.split(",")]
    results = []
    for count in counts:
        results.append(asyncio.run(measure_sessions(count, options.plain)))
        print(sessions_table(results[-1:]), file=sys.stderr, flush=True)
    if options.json:
        write_results(options.json, origin_of("bench.sessions"), sessions=results)
    print(sessions_table(results))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sessions", description=__doc__
    )
    parser.add_argument("--counts", default=f"{FEW},{MANY}", help="sessions, by comma")
    parser.add_argument(
        "--plain", action="store_true", default=IS_PLAIN, help="without compiled code"
    )
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

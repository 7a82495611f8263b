"""What a bus for the tests is made of, by the name of the set-up.

    one          one SQLite store: what everybody starts with
    postgres     one PostgreSQL store, in a server that is started for it
    partitioned  every queue and topic has fragments in four SQLite stores
    brokers      three brokers at one port, which share three SQLite stores

What differs from `one` for a reason of the set-up is in `known-NAME.toml`. Which way
messages take is apart from that:

    plain  AMQP over TCP; tests of WebSockets use them without TLS
    tls    AMQP over TLS; tests of WebSockets use them over TLS
    ws     AMQP over WebSockets for all tests
    wss    the same over TLS
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.postgres_server import PostgresMissing, PostgresServer
from conformance.vendor import CannotRun

ONE = "one"
SETUPS = (ONE, "postgres", "partitioned", "brokers")

PLAIN = "plain"
TRANSPORTS = (PLAIN, "tls", "ws", "wss")
SECURE = ("tls", "wss")
WEBSOCKETS = ("ws", "wss")

_STORES = {"partitioned": 4, "brokers": 3}
_FLAGS = {
    # The tests make more entities than a namespace may have partitioned ones.
    "partitioned": ("--partition-all", "--max-partitioned-entities", "10000"),
    "brokers": ("--brokers", "3"),
}


@contextlib.contextmanager
def flags_of(setup: str, folder: Path) -> Iterator[tuple[str, ...]]:
    """The flags of `twinbus serve`; stores that are files are in that folder."""
    if setup == "postgres":
        with _postgres() as server:
            yield ("--store", server.url("conformance"))
        return
    files = [folder / f"{number}.sqlite3" for number in range(_STORES.get(setup, 0))]
    stores = [flag for file in files for flag in ("--store", f"sqlite:///{file}")]
    yield (*_FLAGS.get(setup, ()), *stores)


@contextlib.contextmanager
def _postgres() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
        server.__enter__()
    except PostgresMissing as missing:
        raise CannotRun(str(missing)) from None
    try:
        yield server
    finally:
        server.__exit__()

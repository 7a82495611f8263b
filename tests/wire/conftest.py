"""Fixtures of the wire tests: a bus for each module, connections for each test."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from twinbus.testing import Bus

from .management import Management, sas_token
from .peer import Peer

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    """The bus that the tests of a module share."""
    with Bus() as running:
        yield running


@pytest.fixture
def make_queue(bus: Bus) -> Callable[..., str]:
    """Creates a queue with the given settings and a fresh name; gives the name."""

    def make(**settings: Any) -> str:
        name = f"wire-{next(_numbers)}"
        bus.create_queue(name, **{"lock_duration": timedelta(minutes=5), **settings})
        return name

    return make


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """The name of a fresh queue."""
    return make_queue()


@pytest.fixture
def dial(bus: Bus) -> Iterator[Callable[[], Peer]]:
    """Opens TCP connections to the bus; nothing has been said on them yet."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Peer(bus.port))


@pytest.fixture
def connect(bus: Bus, dial: Callable[[], Peer]) -> Callable[..., Peer]:
    """Opens authenticated connections with a session, by SASL PLAIN."""

    def make(**options: Any) -> Peer:
        peer = dial()
        assert peer.sasl_plain(bus.key_name, bus.key) == 0
        peer.start(**options)
        return peer

    return make


@pytest.fixture
def texts(connect: Callable[..., Peer]) -> Callable[[str], list[str]]:
    """The bodies that an entity holds, as another connection sees them."""
    return lambda path: Management(connect(), path).peek_texts()


@pytest.fixture
def anonymous(dial: Callable[[], Peer]) -> Callable[[], Peer]:
    """Opens connections by SASL ANONYMOUS: no right to anything but `$cbs`."""

    def make() -> Peer:
        peer = dial()
        assert peer.sasl("ANONYMOUS") == 0
        peer.start()
        return peer

    return make


@pytest.fixture
def peer(connect: Callable[..., Peer]) -> Peer:
    """One authenticated connection."""
    return connect()


@pytest.fixture
def token(bus: Bus) -> Callable[..., str]:
    """Makes tokens signed with the bus's key."""

    def make(
        resource: str,
        *,
        lifetime_seconds: float = 600,
        key: str | None = None,
        **options: Any,
    ) -> str:
        expires_at = bus.now().timestamp() + lifetime_seconds
        return sas_token(resource, bus.key_name, key or bus.key, expires_at, **options)

    return make

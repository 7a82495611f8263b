"""Ports of test buses: nobody else gets them, and the kernel hands them to nobody."""

import socket
from pathlib import Path

import pytest

from twinbus.testing import Bus
from twinbus.testing.kept_port import keep_any_port, keep_port


def first_port_of_the_kernel() -> int:
    found = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    return int(found.split()[0])


def test_kept_port_is_nobody_elses() -> None:
    with keep_any_port() as kept:
        port = kept.getsockname()[1]
        assert port < first_port_of_the_kernel()
        with socket.socket() as other, pytest.raises(OSError):
            other.bind(("127.0.0.1", port))
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))


def test_port_of_a_server_that_has_left_is_kept() -> None:
    with keep_any_port() as found:
        port = found.getsockname()[1]
    with keep_port(port), socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))


def test_bus_has_such_a_port_from_its_birth_to_its_end() -> None:
    with Bus(store="memory") as bus:
        port = bus.port
        assert port < first_port_of_the_kernel()
        assert bus.namespace("shop").port < first_port_of_the_kernel()
        bus.restart()
        assert bus.port == port
        bus.stop()
        with socket.socket() as other, pytest.raises(OSError):
            other.bind(("127.0.0.1", port))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))

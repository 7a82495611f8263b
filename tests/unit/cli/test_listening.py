"""Addresses: which are private, and the errors for those that cannot be used."""

import errno
import os
import socket

import pytest

from twinbus.cli.listening import is_loopback, why_not_listen


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_what_only_this_machine_can_reach(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "", "bus.example"])
def test_what_others_may_reach(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EADDRINUSE, "Port 99 is in use by another program: stop it, or choose"),
        (errno.EACCES, "Port 99 may not be used by this user: choose one above 1023"),
        (errno.EADDRNOTAVAIL, "bus.example is no address of this machine"),
        (errno.EMFILE, "Can't listen on bus.example:99: Too many open files"),
    ],
)
def test_every_reason_has_its_advice(number: int, text: str) -> None:
    error = OSError(number, os.strerror(number))
    said = why_not_listen(error, "bus.example", 99, "--tls-port")
    assert said.startswith(text)
    assert "--host" in said or "--tls-port" in said


def test_a_name_that_is_unknown_is_named() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    said = why_not_listen(error, "bus.example", 99, "--port")
    assert said.startswith("bus.example is no address of this machine (Name or")

"""Addresses to listen on: which are private, which can be used, and why not."""

import errno
import ipaddress
import os
import socket


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def why_not_listen(error: OSError, host: str, port: int, flag: str) -> str:
    """The text for a listener that could not be opened."""
    if isinstance(error, socket.gaierror):
        return f"{host} is no address of this machine ({error.strerror}): see --host."
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} is in use by another program: stop it, or choose another "
            f"port with {flag}."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: see --host."
    if error.errno == errno.EACCES:
        return (
            f"Port {port} may not be used by this user: choose one above 1023 with "
            f"{flag}."
        )
    why = os.strerror(error.errno) if error.errno else str(error)
    return f"Can't listen on {host}:{port}: {why}. See --host and {flag}."


def listening_error(host: str, port: int) -> OSError | None:
    """What would go wrong if this address were listened on now."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None

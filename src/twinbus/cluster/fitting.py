"""Whether a broker fits to those that run: same namespace, same stores, an address that
they can reach and nobody else has.

A broker that does not fit is refused before it announces itself. Otherwise stores would
go to brokers that do not serve their entities, or that nobody can reach.
"""

import os
import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from twinbus.cluster.announcement import Announcement

_PROC: Final = Path("/proc")

_THIS_MACHINE: Final = ("", "localhost", "0.0.0.0", "::")
"""Hosts that mean another machine wherever they are used, besides those that the
standards set aside for that."""


def own_network() -> str:
    """Names the place in which loopback addresses of this process are the same: one
    machine, or one container of it."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink(_PROC / 'self/ns/net')}"
    except OSError:
        return socket.gethostname()


def is_private_to_machine(address: str) -> bool:
    """Only brokers of the same machine can reach HOST:PORT."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback or host in _THIS_MACHINE
    except ValueError:
        return host in _THIS_MACHINE


def why_not_together(
    me: Announcement, others: Iterable[Announcement], places: Mapping[bytes, str]
) -> str | None:
    """Why this broker cannot be one of these; None if it can. `places` says where
    its stores are, by UUID."""
    for other in others:
        reason = (
            _other_namespace(me, other)
            or _other_stores(me, other, places)
            or _same_address(me, other)
            or _unreachable(me, other)
        )
        if reason:
            return reason
    return None


def _other_namespace(me: Announcement, other: Announcement) -> str:
    if not other.namespace or me.namespace.lower() == other.namespace.lower():
        return ""
    return (
        f"Broker {other.name} uses this catalog for the namespace '{other.namespace}', "
        f"and this one is for '{me.namespace}'. Choose another --catalog, or the same "
        "--namespace."
    )


def _other_stores(
    me: Announcement, other: Announcement, places: Mapping[bytes, str]
) -> str:
    if not other.configured or me.configured == other.configured:
        return ""
    more = me.configured - other.configured
    fewer = other.configured - me.configured
    told = [f"{places.get(uuid, uuid.hex())} is not among its stores" for uuid in more]
    told += [f"its store {uuid.hex()} is not among the stores here" for uuid in fewer]
    return (
        f"Broker {other.name} has other stores: {', '.join(sorted(told))}. Start all "
        "brokers with the same --store, in the same words."
    )


def _same_address(me: Announcement, other: Announcement) -> str:
    is_private = is_private_to_machine(me.address)
    is_same = me.address == other.address != ""
    if not is_same or (is_private and me.network != other.network):
        return ""
    return (
        f"Broker {other.name} has the same address for other brokers, {me.address}. "
        "Give each its own, with --peer-host and --peer-port."
    )


def _unreachable(me: Announcement, other: Announcement) -> str:
    if not other.network or me.network == other.network:
        return ""
    if is_private_to_machine(me.address):
        return (
            f"Broker {other.name} is on another machine, and cannot reach this one at "
            f"{me.address}. Name an address of this machine that others can reach, "
            "with --peer-host."
        )
    if is_private_to_machine(other.address):
        return (
            f"Broker {other.name}, on {other.process.host}, cannot be reached from "
            f"here: its address is {other.address}. Start it again with --peer-host "
            "and an address of its machine."
        )
    return ""

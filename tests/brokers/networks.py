"""Network namespaces: machines that can be cut off from each other.

One namespace is the hub, in which the test and the database server are; each machine
is a namespace of its own with two cables to it:

    front  clients and other brokers    10.231.2.x
    data   the database                 10.231.1.x

A cable that is pulled out drops what is sent over it, and tells nobody. A machine also
has process ids and a host name of its own: otherwise brokers would end each other as
processes of one machine. All of this needs root, and `ip`, `nsenter` and `unshare`;
nothing of it can be reached from elsewhere.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_NETWORKS: Final = {"data": "10.231.1", "front": "10.231.2"}
_NAMESPACES: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000


class NoNamespaces(Exception):
    """They cannot be made here; the text says why."""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoNamespaces(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _enter(descriptor: int) -> None:
    """From now on this thread, and what it starts, is in that namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise NoNamespaces(f"setns: {os.strerror(ctypes.get_errno())}")


class Networks:
    """Made by `with`, and gone with its end, whatever happens."""

    def __init__(self, *machines: str) -> None:
        self._machines = machines
        # Of this process: several may run at the same time.
        self._prefix = f"tb{os.getpid()}"
        self._made: list[str] = []
        self._home = -1

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise NoNamespaces("only root may make network namespaces")
        for program in ("ip", "nsenter", "unshare"):
            if shutil.which(program) is None:
                raise NoNamespaces(f"there is no program '{program}'")
        try:
            self._make_all()
            self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            hub = os.open(_NAMESPACES / self._name("hub"), os.O_RDONLY)
            try:
                _enter(hub)
            finally:
                os.close(hub)
        except BaseException:
            self._remove_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _enter(self._home)
        os.close(self._home)
        self._remove_all()

    def _name(self, machine: str) -> str:
        return f"{self._prefix}-{machine}"

    def _make_all(self) -> None:
        self._make("hub")
        for network, prefix in _NETWORKS.items():
            _ip("-n", self._name("hub"), "link", "add", network, "type", "bridge")
            self._address("hub", network, f"{prefix}.1")
        for number, machine in enumerate(self._machines, start=2):
            self._make(machine)
            for network, prefix in _NETWORKS.items():
                cable, hub = f"{network}{number}", self._name("hub")
                _ip(
                    *("-n", hub, "link", "add", cable, "type", "veth", "peer"),
                    *("name", network, "netns", self._name(machine)),
                )
                _ip("-n", hub, "link", "set", cable, "master", network, "up")
                self._address(machine, network, f"{prefix}.{number}")

    def _make(self, machine: str) -> None:
        _ip("netns", "add", self._name(machine))
        self._made.append(self._name(machine))
        _ip("-n", self._name(machine), "link", "set", "lo", "up")

    def _address(self, machine: str, network: str, address: str) -> None:
        name = self._name(machine)
        _ip("-n", name, "address", "add", f"{address}/24", "dev", network)
        _ip("-n", name, "link", "set", network, "up")

    def _remove_all(self) -> None:
        for name in self._made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self._made.clear()

    # --- machines -------------------------------------------------------------

    def address(self, machine: str, network: str = "front") -> str:
        number = 1 if machine == "hub" else self._machines.index(machine) + 2
        return f"{_NETWORKS[network]}.{number}"

    def command(self, machine: str) -> tuple[str, ...]:
        """What a command begins with that is to run on that machine, as its first
        process. It ends with the process that is started here."""
        named = f'hostname {machine} && exec "$0" "$@"'
        return (
            *("nsenter", f"--net={_NAMESPACES / self._name(machine)}", "--"),
            *("unshare", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child"),
            *("--", "sh", "-c", named),
        )

    def cut(self, machine: str, network: str) -> None:
        """Pull out the cable."""
        self._plug(machine, network, "nomaster")

    def mend(self, machine: str, network: str) -> None:
        self._plug(machine, network, "master", network)

    def _plug(self, machine: str, network: str, *how: str) -> None:
        cable = f"{network}{self._machines.index(machine) + 2}"
        _ip("-n", self._name("hub"), "link", "set", cable, *how)

"""The clients of clients.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.vendor import CannotRun

HERE: Final = Path(__file__).parent

TRANSPORTS: Final = ("plain", "tls", "ws", "wss")

_KNOWN: Final = {
    *("title", "source", "needs", "prepare", "run"),
    *("patience_seconds", "transports"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    name: str
    title: str
    source: Path
    needs: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    patience_seconds: float
    transports: tuple[str, ...]


def declared_clients(file: Path = HERE / "clients.toml") -> dict[str, Client]:
    """By name, in the order of the file."""
    return {
        name: _client(name, table)
        for name, table in tomllib.loads(file.read_text()).items()
    }


def chosen(names: list[str]) -> list[Client]:
    """Those named, or all. Raises CannotRun."""
    clients = declared_clients()
    for name in names:
        if name not in clients:
            raise CannotRun(f"there is no client {name}: {', '.join(clients)}")
    return [clients[name] for name in names or clients]


def _client(name: str, table: Mapping[str, Any]) -> Client:
    if surplus := sorted(set(table) - _KNOWN):
        raise CannotRun(f"clients.toml: {name} has {', '.join(surplus)}")
    return Client(
        name=name,
        title=table["title"],
        source=HERE / table["source"],
        needs=tuple(table.get("needs", ())),
        prepare=tuple(tuple(command) for command in table["prepare"]),
        run=tuple(table["run"]),
        patience_seconds=float(table.get("patience_seconds", 300)),
        transports=_transports(name, table.get("transports", ("plain", "tls", "wss"))),
    )


def _transports(name: str, given: Iterable[str]) -> tuple[str, ...]:
    found = tuple(given)
    if unknown := sorted(set(found) - set(TRANSPORTS)):
        raise CannotRun(f"clients.toml: {name} has transport {', '.join(unknown)}")
    return found

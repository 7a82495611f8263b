"""The configuration: one frozen value, built once and passed down.

Sources, later ones win: defaults, a TOML file (or the vendor emulator's
`Config.json`), `TWINBUS_*` variables, command-line flags. An unknown name is an
error that says where it stands and what is known, because a setting that is
silently ignored is found out in production.

    [server]                    [queues.orders]
    port = 5672                 lock_duration = "PT30S"
    max_message_bytes = 262144  max_delivery_count = 5

    [[rules]]                   # rights besides the root key
    key_name = "sender"
    primary_key = "..."
    rights = ["Send"]
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from twinbus.broker.queue_description import AccessRule
from twinbus.config_emulator import queues_of_emulator
from twinbus.durations import duration_ms
from twinbus.limits import CONNECTIONS, ENTITIES_PER_NAMESPACE, MESSAGE_BYTES

ROOT_KEY_NAME: Final = "RootManageSharedAccessKey"
_PREFIX: Final = "TWINBUS_"

DURATION_PROPERTIES: Final = ("lock_duration", "default_message_time_to_live")
"""Properties that people write as durations and descriptions keep in ms."""


class ConfigError(Exception):
    """The configuration cannot be used; the text says which part and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything `twinbus serve` can be told."""

    data: Path = Path("data")
    host: str = "127.0.0.1"
    port: int = 5672
    # TLS is offered where this is not 0.
    tls_port: int = 5671
    # Certificate chain and private key; empty: made and kept in the data folder.
    tls_cert: str = ""
    tls_key: str = ""
    # Key of the root rule; empty: made at the first start, kept in the data folder.
    key: str = field(default="", repr=False)
    # Where messages are kept; empty: a SQLite file in the data folder.
    store: str = ""
    namespace: str = "twinbus"
    log_level: str = "warning"
    max_message_bytes: int = MESSAGE_BYTES
    max_connections: int = CONNECTIONS
    max_entities: int = ENTITIES_PER_NAMESPACE
    # Queues that exist after the start, with the properties given here.
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Rules of the namespace besides the root one.
    rules: tuple[AccessRule, ...] = ()


_SETTINGS: Final = {
    item.name: item for item in fields(Config) if item.name not in ("queues", "rules")
}


def load_config(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
) -> Config:
    """The configuration from all of its sources. Raises ConfigError."""
    config = Config() if file is None else _from_file(file)
    values: dict[str, object] = {}
    for name in _SETTINGS:
        variable = _PREFIX + name.upper()
        if variable in environment:
            values[name] = _typed(name, environment[variable], variable)
    for name, value in flags.items():
        if value is not None:
            values[name] = _typed(name, value, f"--{name.replace('_', '-')}")
    return replace(config, **values)  # type: ignore[arg-type]


def _from_file(file: Path) -> Config:
    try:
        text = file.read_text()
    except OSError as error:
        raise ConfigError(f"{file}: {os.strerror(error.errno or 0)}") from None
    try:
        if file.suffix.lower() == ".json":
            return Config(queues=queues_of_emulator(json.loads(text)))
        return _from_toml(tomllib.loads(text), file)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None


def _from_toml(document: Mapping[str, Any], file: Path) -> Config:
    known = ("server", "queues", "rules")
    for section in document:
        if section not in known:
            raise ConfigError(
                f"{file}: unknown section [{section}]; known are {', '.join(known)}"
            )
    values = {
        name: _typed(name, value, f"{file}: [server] {name}")
        for name, value in document.get("server", {}).items()
    }
    queues = {
        name: queue_properties(properties)
        for name, properties in document.get("queues", {}).items()
    }
    rules = tuple(
        AccessRule(**{**rule, "rights": tuple(rule.get("rights", ()))})
        for rule in document.get("rules", ())
    )
    return Config(queues=queues, rules=rules, **values)  # type: ignore[arg-type]


def _typed(name: str, value: object, where: str) -> object:
    """The value as the setting's type, or a clear error."""
    if name not in _SETTINGS:
        raise ConfigError(
            f"{where}: unknown setting; known are {', '.join(sorted(_SETTINGS))}"
        )
    kind = type(getattr(Config(), name))
    try:
        if kind is int and not isinstance(value, bool):
            return int(str(value))
        return Path(str(value)) if issubclass(kind, Path) else str(value)
    except ValueError:
        raise ConfigError(f"{where}: {value!r} is not a whole number") from None


def queue_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as people write them, with durations in milliseconds.

    Raises ValueError for a duration that is none.
    """
    converted: dict[str, Any] = {}
    for name, value in properties.items():
        if name in DURATION_PROPERTIES:
            converted[f"{name}_ms"] = duration_ms(value)
        else:
            converted[name] = value
    return converted

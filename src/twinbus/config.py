"""The configuration: one frozen value, built once and passed down.

Sources, later ones win: defaults, a TOML file (or the vendor emulator's
`Config.json`), `TWINBUS_*` variables, command-line flags. An unknown name is an
error that says where it stands and what is known, because a setting that is
silently ignored is found out in production.

    [server]                    [queues.orders]
    port = 5672                 lock_duration = "PT30S"

    [[rules]]                   [topics.sales.subscriptions.eu]
    key_name = "sender"         max_delivery_count = 5
    primary_key = "..."
    rights = ["Send"]           # rights besides the root key

Sections of entities are read by `config_entities.py`, the section `[pair]` by
`config_pair.py`.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.config_emulator import entities_of_emulator
from twinbus.config_entities import (
    DeclaredEntities,
    DeclaredTopic,
    access_rule,
    check_names,
    entities_of_tables,
    table,
)
from twinbus.config_pair import PairConfig, pair_of_table
from twinbus.durations import duration_ms, readable_duration
from twinbus.limits import (
    CONNECTIONS,
    CORRELATION_RULES_PER_TOPIC,
    ENTITIES_PER_NAMESPACE,
    ENTITY_MEGABYTES,
    HANDSHAKE_SECONDS,
    MAX_SIZE_IN_MEGABYTES,
    MESSAGE_BYTES,
    MESSAGE_BYTES_MAX,
    SEND_ID_WINDOW_MS,
    SEND_ID_WINDOW_MS_MAX,
    SEND_ID_WINDOW_MS_MIN,
    SQL_RULES_PER_TOPIC,
    SUBSCRIPTIONS_PER_TOPIC,
    TRANSACTION_BYTES,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_MESSAGES,
    TRANSACTION_SECONDS,
    TRANSACTIONS_PER_CONNECTION,
)

ROOT_KEY_NAME: Final = "RootManageSharedAccessKey"
_PREFIX: Final = "TWINBUS_"

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class ConfigError(Exception):
    """The configuration cannot be used; the text says which part and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything `twinbus serve` can be told."""

    data: Path = Path("data")
    host: str = "127.0.0.1"
    # 0: any free one.
    port: int = 5672
    # Further ports, at which clients look for it; all ports serve everything. 0: none.
    http_port: int = 5300
    # TLS is spoken, on all ports, where this is not 0.
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
    # What an entity may ask for by its max_message_size_in_kilobytes.
    max_entity_message_bytes: int = MESSAGE_BYTES
    max_connections: int = CONNECTIONS
    max_entities: int = ENTITIES_PER_NAMESPACE
    # The largest max_size_in_megabytes that an entity may ask for.
    max_entity_megabytes: int = ENTITY_MEGABYTES
    max_subscriptions_per_topic: int = SUBSCRIPTIONS_PER_TOPIC
    # Of all subscriptions of a topic together.
    max_sql_rules_per_topic: int = SQL_RULES_PER_TOPIC
    max_correlation_rules_per_topic: int = CORRELATION_RULES_PER_TOPIC
    # How long a new connection may take to open and to show a right.
    handshake_seconds: int = HANDSHAKE_SECONDS
    # Of one transaction: its life, what it may send, what it may hold in memory.
    transaction_seconds: int = TRANSACTION_SECONDS
    max_transaction_messages: int = TRANSACTION_MESSAGES
    max_transaction_bytes: int = TRANSACTION_BYTES
    # Open ones of one connection.
    max_transactions: int = TRANSACTIONS_PER_CONNECTION
    # Nothing but Service Bus is offered.
    strict: bool = False
    # How long the ids of sends are remembered, to drop a second copy.
    send_id_window: str = readable_duration(SEND_ID_WINDOW_MS)
    # Entities that exist after the start, as they are given here.
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, DeclaredTopic] = field(default_factory=dict)
    # Rules of the namespace besides the root one.
    rules: tuple[AccessRule, ...] = ()
    # The pair whose syphon this server runs.
    pair: PairConfig | None = None
    # Settings that were given by name: what is only a default may be left out.
    asked_for: frozenset[str] = field(default=frozenset(), compare=False)
    # Where entities are declared, for those who complain about them.
    file: str = field(default="", compare=False)


NO_SETTINGS: Final = ("queues", "topics", "rules", "pair", "asked_for", "file")
"""Fields that have no flag and no variable, or are not given at all."""

_SECTIONS: Final = ("server", "queues", "topics", "rules", "pair")

_SETTINGS: Final = {
    item.name: type(getattr(Config(), item.name))
    for item in fields(Config)
    if item.name not in NO_SETTINGS
}
"""Names and types of what a flag, a variable or [server] may set."""

_RANGES: Final = {
    "port": (0, 65_535),
    "http_port": (0, 65_535),
    "tls_port": (0, 65_535),
    "max_message_bytes": (1024, MESSAGE_BYTES_MAX),
    "max_entity_message_bytes": (1024, MESSAGE_BYTES_MAX),
    "max_connections": (1, 1_000_000),
    "max_entities": (1, 1_000_000),
    "max_entity_megabytes": (MAX_SIZE_IN_MEGABYTES[0], MAX_SIZE_IN_MEGABYTES[-1]),
    "max_subscriptions_per_topic": (1, 1_000_000),
    "max_sql_rules_per_topic": (1, 1_000_000),
    "max_correlation_rules_per_topic": (1, 1_000_000),
    "handshake_seconds": (1, 3_600),
    "transaction_seconds": (1, 86_400),
    "max_transaction_messages": (1, 1_000_000),
    "max_transaction_bytes": (1024, TRANSACTION_BYTES_MAX),
    "max_transactions": (1, 1_000_000),
}


def local_connection_string(
    host: str, port: int, key: str, *, tls: bool = False
) -> str:
    """Of a bus that listens on that host, for SDKs on its machine."""
    shown = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "") else host
    plain = "" if tls else "UseDevelopmentEmulator=true;"
    return (
        f"Endpoint=sb://{shown}:{port};SharedAccessKeyName={ROOT_KEY_NAME};"
        f"SharedAccessKey={key};{plain}"
    )


def load_config(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, object],
) -> Config:
    """The configuration from all of its sources. Raises ConfigError."""
    config = Config() if file is None else _from_file(file, environment)
    values = _from_environment(environment)
    for name, value in flags.items():
        if value is not None:
            values[name] = _typed(name, value, f"--{name.replace('_', '-')}")
    config = _with_settings(config, values)
    if config.tls_key and not config.tls_cert:
        raise ConfigError("tls_key is given and tls_cert is not: give both")
    return config


def _with_settings(config: Config, values: Mapping[str, Any]) -> Config:
    return replace(config, asked_for=config.asked_for | values.keys(), **values)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX):
            continue
        if name in _SETTINGS:
            values[name] = _typed(name, text, variable)
        # Not every unknown one: other commands, and container platforms, have
        # variables that begin the same way.
        elif meant := get_close_matches(name, _SETTINGS, n=1, cutoff=0.75):
            known = _PREFIX + meant[0].upper()
            raise ConfigError(f"{variable}: unknown variable; {known} is known")
    return values


def _from_file(file: Path, environment: Mapping[str, str]) -> Config:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix.lower() == ".json":
            return _with_entities(entities_of_emulator(json.loads(text)), file)
        document = tomllib.loads(text)
        config = _from_toml(document, file)
        if "pair" not in document:
            return config
        pair = pair_of_table(table(document["pair"], "pair"), environment)
        return replace(config, pair=pair)
    except OSError as error:
        raise ConfigError(f"{file}: {os.strerror(error.errno or 0)}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None


def _with_entities(
    entities: DeclaredEntities, file: Path, rules: tuple[AccessRule, ...] = ()
) -> Config:
    return Config(
        queues=entities.queues, topics=entities.topics, rules=rules, file=str(file)
    )


def _from_toml(document: Mapping[str, Any], file: Path) -> Config:
    check_names(document, _SECTIONS, "", "section")
    values = {
        name: _typed(name, value, f"{file}: [server] {name}")
        for name, value in table(document.get("server", {}), "server").items()
    }
    rules = document.get("rules", [])
    if not isinstance(rules, list):
        raise ValueError("rules: write each as [[rules]]")
    config = _with_entities(
        entities_of_tables(
            table(document.get("queues", {}), "queues"),
            table(document.get("topics", {}), "topics"),
        ),
        file,
        tuple(access_rule(rule, "[[rules]]") for rule in rules),
    )
    return _with_settings(config, values)


def _typed(name: str, value: object, where: str) -> Any:
    """The value as the setting's type, or a clear error."""
    if name not in _SETTINGS:
        raise ConfigError(
            f"{where}: unknown setting; known are {', '.join(sorted(_SETTINGS))}"
        )
    kind = _SETTINGS[name]
    if kind is int:
        return _whole_number(name, value, where)
    if kind is bool:
        return _yes_or_no(value, where)
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{where}: {value!r} is not a text")
    text = str(value)
    if name == "log_level" and text.lower() not in LOG_LEVELS:
        raise ConfigError(f"{where}: {text!r} is none of {', '.join(LOG_LEVELS)}")
    if not text and name in ("data", "namespace"):
        raise ConfigError(f"{where}: is empty")
    if name == "send_id_window":
        _check_window(text, where)
    return Path(text) if issubclass(kind, Path) else text


def _whole_number(name: str, value: object, where: str) -> int:
    try:
        # Of TOML's booleans and floats none means a whole number.
        number = int(str(value))
    except ValueError:
        raise ConfigError(f"{where}: {value!r} is not a whole number") from None
    low, high = _RANGES[name]
    if not low <= number <= high:
        raise ConfigError(f"{where}: {number} is not from {low} to {high}")
    return number


def _yes_or_no(value: object, where: str) -> bool:
    # A variable is a text; a flag and TOML have booleans.
    known = {"true": True, "1": True, "false": False, "0": False}
    text = str(value).lower()
    if text not in known:
        raise ConfigError(f"{where}: {value!r} is neither true nor false")
    return known[text]


def _check_window(text: str, where: str) -> None:
    try:
        window_ms = duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not SEND_ID_WINDOW_MS_MIN <= window_ms <= SEND_ID_WINDOW_MS_MAX:
        low = readable_duration(SEND_ID_WINDOW_MS_MIN)
        high = readable_duration(SEND_ID_WINDOW_MS_MAX)
        raise ConfigError(f"{where}: {text!r} is not from {low} to {high}")

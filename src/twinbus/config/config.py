"""The configuration: one frozen value, built once and passed down.

Sources, later ones win: defaults, a TOML file (or the vendor emulator's
`Config.json`), `TWINBUS_*` variables, command-line flags. An unknown name is an
error that says where it stands and which names are known: a setting that is silently
ignored would only be noticed in production.

    [server]                    [queues.orders]
    port = 5672                 lock_duration = "PT30S"

    [[rules]]                   [topics.sales.subscriptions.eu]
    key_name = "sender"         max_delivery_count = 5
    primary_key = "..."
    rights = ["Send"]           # rights besides the root key

The settings of `[server]` are the table in `config/settings.py`. Sections of entities
are read by `config/entities.py`, the section `[pair]` by `config/pair.py`, sections
`[namespaces.NAME]` by `config/namespaces.py`.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME, AccessRule
from twinbus.config.emulator import entities_of_emulator
from twinbus.config.entities import (
    DeclaredEntities,
    DeclaredTopic,
    check_names,
    entities_of_tables,
    table,
)
from twinbus.config.namespaces import (
    DeclaredNamespace,
    namespaces_of,
    rules_of_list,
)
from twinbus.config.pair import PairConfig, pair_of_table
from twinbus.config.settings import SETTINGS, VARIABLE_PREFIX, Settings

_OTHER_NAMES: Final = {"stores": "store"}
"""Settings that have another name in the file."""

_SECTIONS: Final = ("server", "queues", "topics", "rules", "namespaces", "pair")


class ConfigError(Exception):
    """The configuration cannot be used; the text says which part and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Settings):
    """Everything `twinbus serve` can be told: settings, entities, rules, a pair."""

    # Entities that exist after the start, as they are given here.
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, DeclaredTopic] = field(default_factory=dict)
    # Rules of the namespace besides the root one.
    rules: tuple[AccessRule, ...] = ()
    # Further namespaces that exist after the start, by name.
    namespaces: Mapping[str, DeclaredNamespace] = field(default_factory=dict)
    # The pair whose syphon this server runs.
    pair: PairConfig | None = None
    # Settings that were given by name: what is only a default may be left out.
    asked_for: frozenset[str] = field(default=frozenset(), compare=False)
    # The file that declares the entities, for error texts about them.
    file: str = field(default="", compare=False)


def local_host(host: str) -> str:
    """How programs on its machine call a bus that listens on that host."""
    return "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "") else host


def local_connection_string(
    host: str, port: int, key: str, *, tls: bool = False
) -> str:
    """Of a bus that listens on that host, for SDKs on its machine."""
    shown = local_host(host)
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
        # A flag that may be repeated is an empty list if it is not given.
        if value is not None and value != []:
            values[name] = _typed(name, value, SETTINGS[name].flag)
    config = _with_settings(config, values)
    if config.tls_key and not config.tls_cert:
        raise ConfigError("tls_key is given and tls_cert is not: give both")
    return config


_OF_OTHER_COMMANDS: Final = frozenset({"connection_string", "context"})
"""Variables that are no settings, though their names are like those of settings."""


def _with_settings(config: Config, values: Mapping[str, Any]) -> Config:
    return replace(config, asked_for=config.asked_for | values.keys(), **values)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(VARIABLE_PREFIX).lower()
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        if name in SETTINGS:
            values[name] = _typed(name, text, variable)
        # Not every unknown one: other commands, and container platforms, have
        # variables that begin the same way.
        elif name in _OF_OTHER_COMMANDS:
            continue
        elif meant := get_close_matches(name, SETTINGS, n=1, cutoff=0.75):
            known = SETTINGS[meant[0]].variable
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
    values: dict[str, Any] = {}
    for written, value in table(document.get("server", {}), "server").items():
        name, where = _OTHER_NAMES.get(written, written), f"{file}: [server] {written}"
        if name in values:
            raise ConfigError(f"{where}: is there twice, as '{name}', too")
        values[name] = _typed(name, value, where)
    named_rules = rules_of_list(document.get("rules", []), "rules")
    config = _with_entities(
        entities_of_tables(
            table(document.get("queues", {}), "queues"),
            table(document.get("topics", {}), "topics"),
        ),
        file,
        named_rules,
    )
    config = replace(config, namespaces=namespaces_of(document.get("namespaces", {})))
    config = _with_settings(config, values)
    if config.namespace.lower() in map(str.lower, config.namespaces):
        raise ValueError(
            f"[namespaces.{config.namespace}]: is the name of the default namespace; "
            "its entities are in sections of their own"
        )
    return config


def _typed(name: str, value: object, where: str) -> Any:
    """The value as the setting's type. Raises ConfigError."""
    if name not in SETTINGS:
        known = ", ".join(sorted(SETTINGS))
        raise ConfigError(f"{where}: unknown setting; known are {known}")
    try:
        return SETTINGS[name].kind.read(value)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None

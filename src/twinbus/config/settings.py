"""The settings of a server, in one table.

Each field of `Settings` is one setting: its name, type, default, allowed values and
help text. From the name follow the key in section `[server]` of the config file, the
variable and the flag:

    max_connections     TWINBUS_MAX_CONNECTIONS     --max-connections

The flags of `twinbus serve` and the table in docs/reference/configuration.md are made
from `SETTINGS`, and `config/config.py` reads the sources by it. To add a setting, add
a field here and run `make docs`. Defaults and bounds come from `limits.py`, with their
reasons.
"""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from twinbus import limits
from twinbus.config.values import (
    ValueKind,
    duration,
    folder,
    one_of,
    switch,
    text,
    urls,
    whole_number,
)
from twinbus.durations import readable_duration

VARIABLE_PREFIX: Final = "TWINBUS_"

_ON_OFF: Final = ("on", "off")
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")

Value = TypeVar("Value")

_PORT: Final = whole_number(0, limits.PORT_MAX)
_COUNT: Final = whole_number(1, limits.SETTING_COUNT_MAX)
_MESSAGE_BYTES: Final = whole_number(limits.MESSAGE_BYTES_MIN, limits.MESSAGE_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table."""

    name: str = ""
    default: object
    kind: ValueKind[Any]
    # What stands for the value in `--help`; empty: the flag takes no value.
    metavar: str
    # One sentence or two, for `--help` and for the reference page.
    help: str
    # What the reference page says besides that, as Markdown.
    details: str
    # What happens where the default is empty.
    if_empty: str
    # The flag may be given several times.
    is_repeatable: bool = False

    @property
    def variable(self) -> str:
        """The environment variable."""
        return VARIABLE_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of `twinbus serve`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def written_default(self) -> str:
        """The default as it is written in the file; empty if there is none."""
        if self.default == ():
            return ""
        return str(self.default).lower() if self.default is False else str(self.default)

    @property
    def flag_help(self) -> str:
        """The help text of the flag."""
        default = self.written_default or self.if_empty
        shown = f" Default: {default}." if default else ""
        return f"{self.help}{shown} ({self.variable})"


def setting(
    default: Value,
    kind: ValueKind[Value],
    metavar: str,
    help: str,
    *,
    details: str = "",
    if_empty: str = "",
    is_secret: bool = False,
    is_repeatable: bool = False,
) -> Value:
    """A field of `Settings`. To mypy it is the default, as with `field`."""
    row = Setting(
        default=default,
        kind=kind,
        metavar=metavar,
        help=help,
        details=details,
        if_empty=if_empty,
        is_repeatable=is_repeatable,
    )
    made: Value = field(default=default, repr=not is_secret, metadata={"row": row})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table, and the values of all settings."""

    data: Path = setting(
        Path("data"),
        folder(),
        "DIR",
        "Folder that the bus keeps.",
        details="It has messages, entities, the root key and certificates.",
    )
    host: str = setting(
        "127.0.0.1",
        text(),
        "HOST",
        "Address to listen on.",
        details="The bus warns about an address that other machines can reach, because "
        "they can read plain TCP on the way.",
    )
    port: int = setting(
        5672,
        _PORT,
        "PORT",
        "Port for AMQP, HTTP, and both over TLS; 0: any free one.",
        details="The printed connection string has the number.",
    )
    http_port: int = setting(
        5300, _PORT, "PORT", "A further port, where clients expect HTTP; 0: none."
    )
    tls_port: int = setting(
        5671,
        _PORT,
        "PORT",
        "A further port, where clients expect TLS; 0: no TLS on any port; the number "
        "of the main port: no further port.",
    )
    tls_cert: str = setting(
        "",
        text(),
        "FILE",
        "Your own certificate chain (PEM).",
        if_empty="the bus makes one",
    )
    tls_key: str = setting(
        "",
        text(),
        "FILE",
        "Private key of --tls-cert (PEM, not encrypted).",
        if_empty="it is in the file of --tls-cert",
    )
    websocket_origins: tuple[str, ...] = setting(
        (),
        urls(),
        "ORIGIN",
        "Pages that may connect from a browser, as https://example.org. Once for each.",
        details="Browsers name the page (`Origin`) in the handshake of a WebSocket. "
        "Pages of the bus's own host and port may always connect, and clients that are "
        "no browsers; `*` allows all pages. In the file it is a text or a list.",
        if_empty="none of other hosts",
        is_repeatable=True,
    )
    key: str = setting(
        "",
        text(),
        "KEY",
        "Key of the root rule. The variable keeps it out of process lists.",
        details="The rule is `RootManageSharedAccessKey`; the file of a key that the "
        "bus made is `root-key`.",
        if_empty="made at the first start and kept in the data folder",
        is_secret=True,
    )
    store: tuple[str, ...] = setting(
        (),
        urls(),
        "URL",
        "Where messages are kept: sqlite:///PATH, postgresql://HOST/DATABASE or "
        "memory:. Once for each of several stores.",
        details="See [several stores](../howto/several-stores.md). In the file it is a "
        "text or a list, and may be called `stores`; the variable has commas or blanks "
        "between URLs.",
        if_empty="messages.sqlite3 in the data folder",
        is_repeatable=True,
    )
    catalog: str = setting(
        "",
        text(),
        "URL",
        "Where entities are recorded: sqlite:///PATH or postgresql://HOST/DATABASE.",
        details="With PostgreSQL brokers of [several "
        "machines](../howto/several-brokers.md#on-several-machines) share their "
        "stores, and a broker joins those that run. The key of the root rule is in "
        "the catalog then, unless it is given.",
        if_empty="catalog.sqlite3 in the data folder",
        is_secret=True,
    )
    peer_host: str = setting(
        "",
        text(),
        "HOST",
        "Address of this machine at which other brokers reach this one.",
        details="It must be one that other machines can reach, if there are brokers on "
        "other machines.",
        if_empty="that of --host",
    )
    peer_port: int = setting(
        0,
        _PORT,
        "PORT",
        "Port for other brokers; 0: any free one.",
        details="With `brokers` it is the first of as many.",
    )
    brokers: int = setting(
        1,
        whole_number(1, limits.BROKERS_MAX),
        "COUNT",
        "Processes that share the stores and the ports.",
        details="See [several brokers](../howto/several-brokers.md).",
    )
    join: bool = setting(
        False,
        switch(),
        "",
        "Share the stores with brokers that run already, as a further one.",
        details="It has the same catalog and stores as they, and ports of its own.",
    )
    namespace: str = setting(
        "twinbus",
        text(may_be_empty=False),
        "NAME",
        "Name of the namespace; the default one, if there are several.",
        details="Entities of a namespace that was the default before stay in the "
        "store and are [not "
        "served](../concepts/storage.md#store-and-catalog-belong-together).",
    )
    max_message_bytes: int = setting(
        limits.MESSAGE_BYTES, _MESSAGE_BYTES, "BYTES", "Largest message."
    )
    max_entity_message_bytes: int = setting(
        limits.MESSAGE_BYTES,
        _MESSAGE_BYTES,
        "BYTES",
        "Largest message that an entity may be set to take.",
        details="The property is `max_message_size_in_kilobytes`.",
    )
    max_connections: int = setting(
        limits.CONNECTIONS,
        _COUNT,
        "COUNT",
        "Connections at a time.",
        details="Those [without a key](../concepts/security.md#strangers) make room "
        "for others.",
    )
    max_entities: int = setting(
        limits.ENTITIES_PER_NAMESPACE,
        _COUNT,
        "COUNT",
        "Queues and topics that may exist.",
    )
    max_entity_megabytes: int = setting(
        limits.ENTITY_MEGABYTES,
        whole_number(limits.MAX_SIZE_IN_MEGABYTES[0], limits.MAX_SIZE_IN_MEGABYTES[-1]),
        "MEGABYTES",
        "Largest max_size_in_megabytes of an entity.",
    )
    fragments: int = setting(
        limits.FRAGMENTS_PER_ENTITY,
        whole_number(1, limits.FRAGMENTS_PER_ENTITY_MAX),
        "COUNT",
        "Fragments of a new partitioned entity.",
        details="Those that exist keep the number they were created with.",
    )
    max_partitioned_entities: int = setting(
        limits.PARTITIONED_ENTITIES,
        _COUNT,
        "COUNT",
        "Partitioned queues and topics that may exist.",
        details="They count as entities, too.",
    )
    partition_all: bool = setting(
        False,
        switch(),
        "",
        "Partition every new queue and topic, whatever its description says.",
    )
    max_subscriptions_per_topic: int = setting(
        limits.SUBSCRIPTIONS_PER_TOPIC,
        _COUNT,
        "COUNT",
        "Subscriptions that a topic may have.",
    )
    max_sql_rules_per_topic: int = setting(
        limits.SQL_RULES_PER_TOPIC,
        _COUNT,
        "COUNT",
        "SQL rules of all subscriptions of a topic.",
    )
    max_correlation_rules_per_topic: int = setting(
        limits.CORRELATION_RULES_PER_TOPIC,
        _COUNT,
        "COUNT",
        "Correlation rules of all subscriptions of a topic.",
    )
    transfer_conventional: str = setting(
        "on",
        one_of(_ON_OFF),
        "on|off",
        "Accept messages for a conventional entity while its store is away.",
        details="They are kept [in another "
        "store](../concepts/partitioned-entities.md#when-a-store-is-away) and appear "
        "when it is back.",
    )
    transfer_keyed: str = setting(
        "off",
        one_of(_ON_OFF),
        "on|off",
        "The same for messages with a key to a partitioned entity.",
        details="If it is off, they are refused; messages without a key go to another "
        "fragment in any case.",
    )
    transfer_limit: str = setting(
        readable_duration(limits.TRANSFER_LIMIT_MS),
        duration(limits.TRANSFER_LIMIT_MS_MIN, limits.TRANSFER_LIMIT_MS_MAX),
        "DURATION",
        "How long a store may be away while messages are accepted for it.",
    )
    transaction_seconds: int = setting(
        limits.TRANSACTION_SECONDS,
        whole_number(1, limits.TRANSACTION_SECONDS_MAX),
        "SECONDS",
        "Life of a transaction.",
    )
    max_transaction_messages: int = setting(
        limits.TRANSACTION_MESSAGES,
        _COUNT,
        "COUNT",
        "Messages that a transaction may send.",
    )
    max_transaction_bytes: int = setting(
        limits.TRANSACTION_BYTES,
        whole_number(limits.MESSAGE_BYTES_MIN, limits.TRANSACTION_BYTES_MAX),
        "BYTES",
        "What a transaction may hold in memory.",
    )
    max_transactions: int = setting(
        limits.TRANSACTIONS_PER_CONNECTION,
        _COUNT,
        "COUNT",
        "Open transactions of one connection.",
    )
    strict: bool = setting(
        False,
        switch(),
        "",
        "Offer nothing but Service Bus.",
        details="The [extensions](extensions.md) are off.",
    )
    throttle_cpu_percent: int = setting(
        0,
        whole_number(0, limits.THROTTLE_CPU_PERCENT_MAX),
        "PERCENT",
        "CPU of the process above which requests are refused; 100: one processor. 0: "
        "any.",
        details="See [throttling](../concepts/failures.md#throttling), also for the "
        "settings that follow.",
    )
    throttle_memory_percent: int = setting(
        limits.THROTTLE_MEMORY_PERCENT,
        whole_number(0, 100),
        "PERCENT",
        "Memory of the process above which requests are refused; 0: any.",
        details="100 is what its container may have, or the machine has.",
    )
    throttle_commit_ms: int = setting(
        limits.THROTTLE_COMMIT_MS,
        whole_number(0, limits.THROTTLE_COMMIT_MS_MAX),
        "MILLISECONDS",
        "Duration of commits above which their store refuses messages; 0: any.",
    )
    throttle_free_megabytes: int = setting(
        0,
        whole_number(0, limits.THROTTLE_MEGABYTES_MAX),
        "MEGABYTES",
        "Free space below which a store refuses messages; 0: what it needs itself.",
    )
    throttle_operations: int = setting(
        0,
        whole_number(0, limits.SETTING_COUNT_MAX),
        "COUNT",
        "Operations per second above which requests are refused; 0: any number.",
        details="Each message that is sent, scheduled or settled is one.",
    )
    throttle_burst: int = setting(
        0,
        whole_number(0, limits.SETTING_COUNT_MAX),
        "COUNT",
        "Operations that may be done at once; 0: those of one second.",
    )
    watchdog_seconds: int = setting(
        limits.WATCHDOG_SECONDS,
        whole_number(0, limits.WATCHDOG_SECONDS_MAX),
        "SECONDS",
        "A server that does nothing for so long writes a diagnosis and ends; 0: never.",
        details="See [diagnoses](../howto/diagnose.md).",
    )
    max_diagnoses: int = setting(
        limits.DIAGNOSES,
        whole_number(1, limits.DIAGNOSES_MAX),
        "COUNT",
        "Diagnoses that are kept.",
    )
    allow_faults: bool = setting(
        False,
        switch(),
        "",
        "Let tests make this bus fail on purpose.",
        details="See [testing with faults](../howto/test-with-faults.md). Operations "
        "take longer.",
    )
    print_connection_string: bool = setting(
        False,
        switch(),
        "",
        "Print the connection string with its key, then `ready`, and nothing else.",
        details="For tests of other languages, with `--port 0`: they read two lines.",
    )
    send_id_window: str = setting(
        readable_duration(limits.SEND_ID_WINDOW_MS),
        duration(limits.SEND_ID_WINDOW_MS_MIN, limits.SEND_ID_WINDOW_MS_MAX),
        "DURATION",
        "How long ids of sends are remembered.",
        details="See [send ids](extensions.md#send-ids).",
    )
    handshake_seconds: int = setting(
        limits.HANDSHAKE_SECONDS,
        whole_number(1, limits.HANDSHAKE_SECONDS_MAX),
        "SECONDS",
        "Time for a new connection to open and show a right.",
        details="An HTTP connection without a key may also be idle for so long between "
        "two requests.",
    )
    max_failed_attempts: int = setting(
        limits.FAILED_PROOFS,
        whole_number(0, limits.FAILED_PROOFS_MAX),
        "N",
        "Wrong keys of one address before it has to wait; 0: any number.",
        details="Counted for each key name. See "
        "[failed attempts](../concepts/security.md#failed-attempts).",
    )
    audit: str = setting(
        "on",
        one_of(_ON_OFF),
        "on|off",
        "Whether administration is logged, whatever the log level is.",
        details="See [audit](../concepts/security.md#audit).",
    )
    operation_log_folder: str = setting(
        "",
        text(),
        "DIR",
        "Export the operation log to Parquet files in this folder.",
        details="A process of its own does it, which needs `twinbus[log]`. See "
        "[operation log](operation-log.md).",
        if_empty="not exported",
    )
    operation_log_keep: str = setting(
        "",
        text(),
        "DURATION",
        "Remove exported files with older operations, for example 30d.",
        if_empty="kept for ever",
    )
    operation_log_megabytes: int = setting(
        0,
        whole_number(0, limits.SETTING_COUNT_MAX),
        "NUMBER",
        "Remove the oldest exported files of a store beyond this size; 0: never.",
    )
    log_level: str = setting(
        "warning",
        one_of(_LOG_LEVELS),
        "LEVEL",
        "What is logged: debug, info, warning or error.",
    )


SETTINGS: Final = {
    item.name: replace(item.metadata["row"], name=item.name)
    for item in fields(Settings)
}
"""Each setting by its name, in the order in which help and the page show them."""

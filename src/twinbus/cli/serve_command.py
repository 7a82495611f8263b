"""`twinbus serve`: its flags. What it does with them is in `serve.py`.

A flag's value goes to `load_config` as it was written; that is where types and the
order of the sources are known, and where a wrong value is refused.
"""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli.flags import examples, setting

EXAMPLES: Final = examples(
    "twinbus serve",
    "twinbus serve --data /var/lib/twinbus --config bus.toml",
    "twinbus serve --store memory: --port 0 --http-port 0 --tls-port 0",
    "TWINBUS_PORT=5680 twinbus serve --host 0.0.0.0",
)

_Setting = str | None


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Settings and entities: TOML, or the vendor emulator's Config.json. "
            "(TWINBUS_CONFIG)",
            metavar="FILE",
            envvar="TWINBUS_CONFIG",
            show_envvar=False,
        ),
    ] = None,
    data: Annotated[
        _Setting, setting("--data", "Folder that the bus keeps. Default: data.", "DIR")
    ] = None,
    host: Annotated[
        _Setting, setting("--host", "Address to listen on. Default: 127.0.0.1.", "HOST")
    ] = None,
    port: Annotated[
        _Setting,
        setting(
            "--port",
            "Port for AMQP, HTTP, and both over TLS; 0: any free one. Default: 5672.",
            "PORT",
        ),
    ] = None,
    http_port: Annotated[
        _Setting,
        setting(
            "--http-port",
            "A further port, where HTTP is looked for; 0: none. Default: 5300.",
            "PORT",
        ),
    ] = None,
    tls_port: Annotated[
        _Setting,
        setting(
            "--tls-port",
            "A further port, where TLS is looked for; 0: no TLS at all, the main port: "
            "no further one. Default: 5671.",
            "PORT",
        ),
    ] = None,
    tls_cert: Annotated[
        _Setting,
        setting("--tls-cert", "Your own certificate chain, instead of ours.", "FILE"),
    ] = None,
    tls_key: Annotated[
        _Setting, setting("--tls-key", "Private key of --tls-cert.", "FILE")
    ] = None,
    key: Annotated[
        _Setting,
        setting(
            "--key",
            "Key of the root rule. Default: made at the first start and kept in the "
            "data folder. The variable keeps it out of process lists.",
            "KEY",
        ),
    ] = None,
    store: Annotated[
        _Setting,
        setting(
            "--store",
            "Where messages are kept: sqlite:///PATH or memory:. Default: a SQLite "
            "file in the data folder.",
            "URL",
        ),
    ] = None,
    namespace: Annotated[
        _Setting,
        setting("--namespace", "Name of the namespace. Default: twinbus.", "NAME"),
    ] = None,
    max_message_bytes: Annotated[
        _Setting,
        setting("--max-message-bytes", "Largest message. Default: 262144.", "BYTES"),
    ] = None,
    max_entity_message_bytes: Annotated[
        _Setting,
        setting(
            "--max-entity-message-bytes",
            "Largest message that an entity may be set to take. Default: 262144.",
            "BYTES",
        ),
    ] = None,
    max_connections: Annotated[
        _Setting,
        setting("--max-connections", "Connections at a time. Default: 5000.", "COUNT"),
    ] = None,
    max_entities: Annotated[
        _Setting,
        setting("--max-entities", "Entities that may exist. Default: 10000.", "COUNT"),
    ] = None,
    max_entity_megabytes: Annotated[
        _Setting,
        setting(
            "--max-entity-megabytes",
            "Largest max_size_in_megabytes of an entity. Default: 5120.",
            "MEGABYTES",
        ),
    ] = None,
    max_subscriptions_per_topic: Annotated[
        _Setting,
        setting(
            "--max-subscriptions-per-topic",
            "Subscriptions that a topic may have. Default: 2000.",
            "COUNT",
        ),
    ] = None,
    max_sql_rules_per_topic: Annotated[
        _Setting,
        setting(
            "--max-sql-rules-per-topic",
            "SQL rules of all subscriptions of a topic. Default: 2000.",
            "COUNT",
        ),
    ] = None,
    max_correlation_rules_per_topic: Annotated[
        _Setting,
        setting(
            "--max-correlation-rules-per-topic",
            "Correlation rules of all subscriptions of a topic. Default: 100000.",
            "COUNT",
        ),
    ] = None,
    transaction_seconds: Annotated[
        _Setting,
        setting(
            "--transaction-seconds", "Life of a transaction. Default: 120.", "SECONDS"
        ),
    ] = None,
    max_transaction_messages: Annotated[
        _Setting,
        setting(
            "--max-transaction-messages",
            "Messages that a transaction may send. Default: 100.",
            "COUNT",
        ),
    ] = None,
    max_transaction_bytes: Annotated[
        _Setting,
        setting(
            "--max-transaction-bytes",
            "What a transaction may hold in memory. Default: 26214400.",
            "BYTES",
        ),
    ] = None,
    max_transactions: Annotated[
        _Setting,
        setting(
            "--max-transactions",
            "Open transactions of one connection. Default: 1000.",
            "COUNT",
        ),
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict",
            help="Offer nothing but Service Bus. Default: false. (TWINBUS_STRICT)",
            show_default=False,
        ),
    ] = None,
    send_id_window: Annotated[
        _Setting,
        setting(
            "--send-id-window",
            "How long ids of sends are remembered. Default: 1d.",
            "DURATION",
        ),
    ] = None,
    handshake_seconds: Annotated[
        _Setting,
        setting(
            "--handshake-seconds",
            "Time for a new connection to open and show a right. Default: 20.",
            "SECONDS",
        ),
    ] = None,
    log_level: Annotated[
        _Setting,
        setting(
            "--log-level",
            "debug, info, warning or error. Default: warning.",
            "LEVEL",
        ),
    ] = None,
) -> None:
    """Run the bus until it is told to stop (SIGTERM, or Ctrl-C).

    Prints the connection string, and `ready` when it can send and receive.
    """
    flags = dict(locals())
    from twinbus.cli.serve import run_server
    from twinbus.cli.settings import settings

    run_server(settings(flags.pop("config"), os.environ, flags))

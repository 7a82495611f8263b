"""What the settings of a server mean to its parts."""

import logging
import resource

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.transaction import TransactionLimits
from twinbus.clock import Clock
from twinbus.config.config import Config
from twinbus.doors.memory_share import MemoryShare
from twinbus.durations import duration_ms
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.partitioning import Partitioning
from twinbus.entities.topic_quotas import TopicQuotas
from twinbus.limits import (
    CLIENT_SPARED_BYTES,
    CLIENTS_BYTES,
    FILES_RESERVED,
    STRANGER_SPARED_BYTES,
    STRANGERS_BYTES,
)
from twinbus.links.extensions import Extensions
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.throttling.thresholds import Thresholds

_log = logging.getLogger(__name__)


def share_of_strangers(clock: Clock) -> MemoryShare:
    limits = STRANGERS_BYTES, STRANGER_SPARED_BYTES
    return MemoryShare("that have shown no key", *limits, clock)


def share_of_clients(config: Config, clock: Clock) -> MemoryShare:
    largest = max(config.max_message_bytes, config.max_entity_message_bytes)
    limit = max(CLIENTS_BYTES, 2 * largest)
    return MemoryShare("of clients", limit, CLIENT_SPARED_BYTES, clock)


def connection_places(max_connections: int) -> int:
    """As many connections as configured, limited by the number of files that the
    process may open: without free files it could accept no client at all."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files - FILES_RESERVED >= max_connections:
        return max_connections
    places = max(files - FILES_RESERVED, 1)
    _log.warning(
        "max_connections is %d, but the process may open %d files only: there is room "
        "for %d connections. Raise the limit of open files (ulimit -n).",
        *(max_connections, files, places),
    )
    return places


def thresholds(config: Config) -> Thresholds:
    return Thresholds(
        cpu_percent=config.throttle_cpu_percent,
        memory_percent=config.throttle_memory_percent,
        commit_ms=config.throttle_commit_ms,
        free_megabytes=config.throttle_free_megabytes,
        operations_per_second=config.throttle_operations,
        burst=config.throttle_burst or config.throttle_operations,
    )


def topic_quotas(config: Config) -> TopicQuotas:
    return TopicQuotas(
        subscriptions=config.max_subscriptions_per_topic,
        sql_rules=config.max_sql_rules_per_topic,
        correlation_rules=config.max_correlation_rules_per_topic,
    )


def partitioning(config: Config) -> Partitioning:
    return Partitioning(
        fragment_count=config.fragments,
        max_entities=config.max_partitioned_entities,
        is_forced=config.partition_all,
    )


def namespace_limits(config: Config, extensions: Extensions) -> NamespaceLimits:
    """Of each namespace."""
    return NamespaceLimits(
        max_entities=config.max_entities,
        max_message_bytes=config.max_message_bytes,
        max_entity_message_bytes=config.max_entity_message_bytes,
        max_entity_megabytes=config.max_entity_megabytes,
        topic_quotas=topic_quotas(config),
        partitioning=partitioning(config),
        extensions=extensions,
    )


def rules_of_namespaces(config: Config) -> dict[str, tuple[AccessRule, ...]]:
    """Those that the settings have for namespaces besides the default one, by
    lower-case name."""
    return {name.lower(): one.fixed_rules for name, one in config.namespaces.items()}


def transaction_limits(config: Config) -> TransactionLimits:
    return TransactionLimits(
        config.transaction_seconds * 1000,
        config.max_transaction_messages,
        config.max_transaction_bytes,
        config.max_transactions,
    )


def transfer_settings(config: Config) -> TransferSettings:
    return TransferSettings(
        conventional=config.transfer_conventional.lower() == "on",
        keyed=config.transfer_keyed.lower() == "on",
        limit_ms=duration_ms(config.transfer_limit),
    )


def extensions(config: Config) -> Extensions:
    return Extensions(
        is_strict=config.strict, send_id_window_ms=duration_ms(config.send_id_window)
    )

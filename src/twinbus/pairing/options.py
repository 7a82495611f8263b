"""The options of a pair (P2): a base class for kinds of pairing, and the one kind.

Durations are seconds or timedelta. Options are checked here, before anything is sent:
each error names the option, its value and what is allowed.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from twinbus.pairing.coverage import covers_any
from twinbus.pairing.events import PairEvent
from twinbus.pairing.failures import VERDICTS, FailureKind, Verdict
from twinbus.pairing.send_log import check_send_log
from twinbus.pairing.settings import (
    ATTEMPT_TIMEOUT_MS,
    BACKLOG_QUEUE_COUNT,
    BACKLOG_RETRY_MS,
    BUSY_WAIT_MS,
    FAILOVER_INTERVAL_MS,
    FAULT_GRACE_MS,
    PAIRING_TIMEOUT_MS,
    PING_PRIMARY_INTERVAL_MS,
    SEND_TIMEOUT_MS,
    PairSettings,
)

Duration = float | timedelta

_SHORTEST_PING_MS: Final = 1_000
_MOST_QUEUES: Final = 1_000


class PairedNamespaceOptions:
    """What every kind of pairing needs: the two clients of the secondary.

    The clients are those of azure-servicebus, synchronous or asynchronous as the
    primary's client is. The management client's key needs the Manage right.
    """

    def __init__(self, secondary_management_client: Any, secondary_client: Any) -> None:
        if secondary_management_client is None or secondary_client is None:
            raise ValueError(
                "A pairing needs both clients of the secondary namespace: a "
                "ServiceBusAdministrationClient (with the Manage right) and a "
                "ServiceBusClient."
            )
        self.secondary_management_client = secondary_management_client
        self.secondary_client = secondary_client


class SendAvailabilityPairedNamespaceOptions(PairedNamespaceOptions):
    """Sends go on while the primary is away; a syphon brings them back."""

    def __init__(
        self,
        secondary_management_client: Any,
        secondary_client: Any,
        backlog_queue_count: int = BACKLOG_QUEUE_COUNT,
        failover_interval: Duration = FAILOVER_INTERVAL_MS / 1000,
        enable_syphon: bool = False,
        *,
        ping_primary_interval: Duration = PING_PRIMARY_INTERVAL_MS / 1000,
        primary_name: str | None = None,
        covered_entities: str | list[str] = "*",
        attempt_timeout: Duration = ATTEMPT_TIMEOUT_MS / 1000,
        send_timeout: Duration = SEND_TIMEOUT_MS / 1000,
        busy_wait: Duration = BUSY_WAIT_MS / 1000,
        backlog_retry_interval: Duration = BACKLOG_RETRY_MS / 1000,
        fault_grace: Duration = FAULT_GRACE_MS / 1000,
        pairing_timeout: Duration = PAIRING_TIMEOUT_MS / 1000,
        wait_during_failover: bool = True,
        keep_session_order: bool = False,
        assign_message_ids: bool = True,
        count_backlog_against_ttl: bool = False,
        verdicts: Mapping[FailureKind, Verdict] | None = None,
        on_event: Callable[[PairEvent], None] | None = None,
        send_log: str | Path | None = None,
        send_log_keep: Duration | None = None,
        send_log_keep_megabytes: int = 0,
    ) -> None:
        """`primary_name` is part of the paths of backlog queues. It must be given if
        the primary's host is localhost or an IP address. `covered_entities` are
        patterns of the paths that the syphon may send to. `send_log` is a folder: what
        became of each message is written there (docs/reference/operation-log.md). The
        other options are described in docs/concepts/pairing.md.

        Raises ValueError.
        """
        super().__init__(secondary_management_client, secondary_client)
        _check_count(backlog_queue_count)
        # After pairing: how many backlog queues were found or made (P3).
        self.backlog_queue_count = backlog_queue_count
        self.backlog_queues: tuple[str, ...] = ()
        self.enable_syphon = enable_syphon
        self.primary_name = _checked_name(primary_name)
        self.covered_entities = _patterns(covered_entities)
        self.count_backlog_against_ttl = count_backlog_against_ttl
        self.on_event = on_event
        self.send_log = None if send_log is None else Path(send_log)
        # 0: for ever, and without a limit.
        self.send_log_keep_ms = (
            0 if send_log_keep is None else _ms("send_log_keep", send_log_keep, 1)
        )
        self.send_log_keep_bytes = _bytes(
            "send_log_keep_megabytes", send_log_keep_megabytes
        )
        if send_log is not None:
            check_send_log()
        self.settings = PairSettings(
            failover_interval_ms=_ms("failover_interval", failover_interval, 0),
            ping_primary_interval_ms=_ms(
                "ping_primary_interval", ping_primary_interval, _SHORTEST_PING_MS
            ),
            attempt_timeout_ms=_ms("attempt_timeout", attempt_timeout, 1),
            send_timeout_ms=_ms("send_timeout", send_timeout, 1),
            busy_wait_ms=_ms("busy_wait", busy_wait, 0),
            backlog_retry_ms=_ms("backlog_retry_interval", backlog_retry_interval, 0),
            fault_grace_ms=_ms("fault_grace", fault_grace, 0),
            pairing_timeout_ms=_ms("pairing_timeout", pairing_timeout, 1),
            wait_during_failover=wait_during_failover,
            keep_session_order=keep_session_order,
            assign_message_ids=assign_message_ids,
            verdicts={**VERDICTS, **(verdicts or {})},
        )

    @property
    def known_entities(self) -> tuple[str, ...]:
        """Covered entities that are given by their full path."""
        return tuple(one for one in self.covered_entities if not set(one) & set("*?["))

    def covers(self, path: str) -> bool:
        """Whether the pair's syphon may send to this entity, in any letter case."""
        return covers_any(self.covered_entities)(path)


def _check_count(count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise ValueError(f"backlog_queue_count is {count!r}; it must be a number.")
    if not 1 <= count <= _MOST_QUEUES:
        raise ValueError(
            f"backlog_queue_count is {count}; it must be at least 1 and at most "
            f"{_MOST_QUEUES}."
        )


def _checked_name(name: str | None) -> str | None:
    if name is not None and (not name or set(name) & set("/\\?#@*")):
        raise ValueError(
            f"primary_name is {name!r}; it is part of the paths of backlog queues and "
            "must be a text without any of / \\ ? # @ *"
        )
    return name


def _patterns(covered: str | list[str]) -> tuple[str, ...]:
    patterns = (covered,) if isinstance(covered, str) else tuple(covered)
    if not patterns or not all(patterns):
        raise ValueError(
            "covered_entities is empty; give a pattern such as 'orders*', or '*' for "
            "all entities."
        )
    return tuple(pattern.lower() for pattern in patterns)


def _bytes(option: str, megabytes: object) -> int:
    if not isinstance(megabytes, int) or isinstance(megabytes, bool) or megabytes < 0:
        raise ValueError(
            f"{option} is {megabytes!r}; it must be a whole number, or 0 for no limit."
        )
    return megabytes << 20


def _ms(option: str, value: object, at_least_ms: int) -> int:
    """Whole milliseconds of an option."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{option} is {value!r}; give seconds or a timedelta.")
    # This way round, NaN is refused, too.
    if not value * 1000 >= at_least_ms or value == float("inf"):
        raise ValueError(
            f"{option} is {value:g} seconds; it must be at least "
            f"{at_least_ms / 1000:g} and finite."
        )
    return round(value * 1000)

"""Writes the parts of docs/concepts/pairing.md that are made from the code.

The page is written by hand, but for what stands between two lines of the form

    <!-- made by scripts/pairing_page.py: NAME -->
    <!-- end of NAME -->

A test compares the page with what this would write, so that the diagram of states and
the tables cannot fall behind the policy.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from twinbus.pairing.entity_health import TRANSITIONS
from twinbus.pairing.failures import VERDICTS
from twinbus.pairing.options import SendAvailabilityPairedNamespaceOptions
from twinbus.pairing.syphon.treatments import TREATMENTS

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "pairing.md"

OPTIONS = {
    "secondary_management_client": "Administration client of the secondary; its key "
    "needs the Manage right",
    "secondary_client": "Messaging client of the secondary",
    "backlog_queue_count": "Backlog queues, 1 to 1000",
    "failover_interval": "How long all sends to an entity must fail before it fails "
    "over; 0: it fails over at the first failure",
    "enable_syphon": "Whether this process runs the syphon",
    "ping_primary_interval": "Time between two pings of an entity, at least 1 second",
    "primary_name": "First part of the paths of backlog queues. Default: the first "
    "label of the primary's host. Required if the host is localhost or an IP address",
    "covered_entities": "Patterns of the paths that the syphon may send to",
    "attempt_timeout": "Time-out of one attempt, at the primary or a backlog queue",
    "send_timeout": "Time-out of a send without its own one, in addition to the "
    "`failover_interval`",
    "busy_wait": "Wait before the next attempt at a busy server",
    "backlog_retry_interval": "How long a failed backlog queue is not used",
    "wait_during_failover": "Whether a send to a suspect entity waits and retries; "
    "otherwise it raises its first failure",
    "keep_session_order": "Whether messages of a session wait for those in the backlog",
    "assign_message_ids": "Whether messages without a message id get one",
    "count_backlog_against_ttl": "Whether the time in the backlog is part of a "
    "message's time to live",
    "fault_grace": "With a syphon: how long one client may stay open after the other "
    "was closed",
    "pairing_timeout": "Time-out of the whole call of `pair_namespace`",
    "verdicts": "Changes to the table of failures above",
    "on_event": "Called with every `PairEvent`, on the pair's event loop; must not "
    "block",
    "send_log": "A folder: what became of each message is written there, as a [send "
    "log](../reference/operation-log.md#send-logs)",
    "send_log_keep": "Remove files of the send log with older operations. Default: "
    "all are kept",
    "send_log_keep_megabytes": "Remove the oldest files of a process beyond this size; "
    "0: all are kept",
}
"""What each option means; durations are seconds or timedelta."""


def states() -> str:
    lines = [f"    [*] --> {next(iter(TRANSITIONS)).name}\n"]
    for source, happenings in TRANSITIONS.items():
        # What changes nothing would only hide what does.
        lines += [
            f"    {source.name} --> {target.name}: {happening.value}\n"
            for happening, target in happenings.items()
            if target is not source
        ]
    return f"```mermaid\nstateDiagram-v2\n{''.join(lines)}```\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def verdicts() -> str:
    return table(
        ("A send fails with", "What follows"),
        ((kind.value, verdict.value) for kind, verdict in VERDICTS.items()),
    )


def treatments() -> str:
    return table(
        ("A restore fails with", "What follows"),
        ((kind.value, treatment.value) for kind, treatment in TREATMENTS.items()),
    )


def options() -> str:
    signature = inspect.signature(SendAvailabilityPairedNamespaceOptions)
    return table(
        ("Option", "Default", "Meaning"),
        (
            (f"`{name}`", written_default(parameter), OPTIONS[name])
            for name, parameter in signature.parameters.items()
        ),
    )


def written_default(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty or default is None:
        return ""
    if isinstance(default, float):
        return f"{default:g} s"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


PARTS: Mapping[str, Callable[[], str]] = {
    "states": states,
    "verdicts": verdicts,
    "treatments": treatments,
    "options": options,
}

_PART = re.compile(
    r"(<!-- made by scripts/pairing_page\.py: (\w+) -->\n).*?(<!-- end of \2 -->)",
    re.DOTALL,
)


def page() -> str:
    return _PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}{m[3]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())

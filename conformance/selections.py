"""What can be selected: names, the files of the vendor behind them, tests at once.

The management tests list and clear the whole namespace, so they run one at a time.
The others wait most of the time, for locks to run out and schedules to come due.
`offline` needs no server: it shows that the patches of the SDK harm nothing.
"""

import os
from dataclasses import dataclass

DEFAULT_WORKERS = 4

# Parts of the names of tests that take a minute or more each, asleep: what `--quick`
# leaves out.
SLOW = (
    *("autolockrenew", "cancel_scheduled", "connection_failure_is_idempotent"),
    *("github_issue_6178", "keep_conn_alive", "large_messages_w_sleep"),
    *("link_timeout", "lock_renew", "release_messages", "renew_client_locks"),
    *("renew_message_locks", "schedule_message", "schedule_multiple"),
    "session_pool",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One run of pytest over a part of the vendor's tests."""

    name: str
    arguments: tuple[str, ...]
    is_alone: bool = False

    @property
    def workers(self) -> int:
        if self.is_alone:
            return 1
        return int(os.environ.get("SB_WORKERS", DEFAULT_WORKERS))


_PHASES = (
    Phase(
        name="sync",
        arguments=(
            "test_queues.py",
            "test_sessions.py",
            "test_subscriptions.py",
            "test_topic.py",
            "test_sb_client.py",
            "test_list_sessions.py",
            "test_message.py",
        ),
    ),
    Phase(name="async", arguments=("async_tests",)),
    Phase(
        name="mgmt",
        arguments=("mgmt_tests", "--ignore=mgmt_tests/async"),
        is_alone=True,
    ),
    Phase(name="mgmt-async", arguments=("mgmt_tests/async",), is_alone=True),
)
_OFFLINE = Phase(
    name="offline",
    arguments=(
        "unittests",
        "test_batch_sizing.py",
        "test_connection_string_parser.py",
        "test_dictmixin_amqp.py",
        "test_mgmt_client_kwargs.py",
    ),
)

SELECTIONS = {
    "all": _PHASES,
    **{phase.name: (phase,) for phase in (*_PHASES, _OFFLINE)},
}

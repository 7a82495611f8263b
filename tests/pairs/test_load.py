"""The short form of the bench of paired namespaces, and its auditor.

One kill and one freeze under load: no send fails, and every message is received once.
The long form is `python -m bench.pairing`.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twinbus

ROOT = Path(__file__).parents[2]
SOURCE = Path(twinbus.__file__).parents[1]
Audit: Any = runpy.run_path(str(ROOT / "bench" / "pairing_audit.py"))["Audit"]

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 110.0

SHORT = (
    *("--kills", "1", "--freezes", "1", "--outage", "3", "--calm", "1"),
    *("--failover-interval", "1", "--attempt-timeout", "2", "--ping-interval", "1"),
    *("--senders", "2", "--rate", "100", "--backlog-queues", "3"),
    # Other tests may run at the same time; the long form is strict.
    *("--allowance", "5", "--drain", "0", "--sdk-drain", "0"),
)


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """If it hangs it is told to stop, which ends all that it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.pairing", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate()
    return subprocess.CompletedProcess(
        process.args, process.returncode, stdout=output, stderr=""
    )


@pytest.mark.timeout(180)
def test_nothing_is_refused_lost_or_doubled_when_the_primary_goes_away_under_load(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pairing.json"

    run = run_bench(*SHORT, "--syphon", "application", "--json", str(file))

    assert run.returncode == 0, run.stdout
    (load,) = json.loads(file.read_text())["pairing"]
    assert [one["kind"] for one in load["outages"]] == ["kill", "freeze"]
    assert min(one["backlog"] for one in load["outages"]) > 0
    assert load["verdict"]["once"] == load["verdict"]["accepted"] > 0


def verdict_of(audit: Any, count: int, **failed: Any) -> Any:
    return audit.verdict({0: count}, failed.get("failed", {}))


def audit_of(*ids: str) -> Any:
    """Each received and completed, in this order."""
    audit = Audit()
    for sequence_number, id in enumerate(ids, start=1):
        audit.received(id, sequence_number)
        audit.completed([id])
    return audit


def test_auditor_is_content_with_every_message_once_in_any_order() -> None:
    verdict = verdict_of(audit_of("0-2", "0-0", "0-1"), 3)

    assert (verdict.once, verdict.is_clean) == (3, True)


def test_auditor_misses_a_message_that_never_came() -> None:
    verdict = verdict_of(audit_of("0-0", "0-2"), 3)

    assert (verdict.never, verdict.is_clean) == (1, False)
    assert verdict.samples == ["0-1: never"]


def test_auditor_misses_all_messages_of_a_sender_that_was_never_heard_of() -> None:
    assert audit_of().verdict({0: 2, 1: 3}, {}).never == 5


def test_auditor_excuses_messages_that_their_sender_knows_are_not_sent() -> None:
    verdict = verdict_of(audit_of("0-0"), 3, failed={0: [(1, 2)]})

    assert (verdict.accepted, verdict.never, verdict.is_clean) == (1, 0, True)


def test_auditor_sees_a_second_message_of_the_same_id() -> None:
    verdict = verdict_of(audit_of("0-0", "0-0"), 1)

    assert (verdict.once, verdict.twice, verdict.is_clean) == (1, 1, False)


def test_auditor_sees_a_second_message_while_the_first_is_not_completed() -> None:
    audit = Audit()
    audit.received("0-0", 1)
    audit.received("0-0", 2)

    assert verdict_of(audit, 1).twice == 1


def test_auditor_sees_a_message_that_comes_again_after_its_completion() -> None:
    audit = audit_of("0-0")
    audit.received("0-0", 1)

    assert verdict_of(audit, 1).twice == 1


def test_auditor_knows_a_redelivery_of_what_was_not_completed() -> None:
    audit = Audit()
    audit.received("0-0", 1)
    audit.received("0-0", 1)
    verdict = verdict_of(audit, 1)

    assert (verdict.redelivered, verdict.twice, verdict.is_clean) == (1, 0, True)


@pytest.mark.parametrize("id", ["0-3", "1-0", "nobody's"])
def test_auditor_sees_a_message_that_nobody_sent(id: str) -> None:
    verdict = verdict_of(audit_of("0-0", "0-1", "0-2", id), 3)

    assert (verdict.unknown, verdict.is_clean) == (1, False)

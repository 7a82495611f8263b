"""A transaction of unknown outcome: all of it happened, or none."""

import pytest

from simulator.audited_message import Rules, Sent
from simulator.auditor import Auditor
from simulator.sighting import Counts, Sighting, Violation

RULES = Rules(
    lock_duration_ms=60_000,
    max_delivery_count=10,
    default_ttl_ms=0,
    dead_letter_on_expiration=False,
)
TOKEN = b"t" * 16


def sighting(uid: str, path: str) -> Sighting:
    return Sighting(
        uid=uid,
        path=path,
        dead_letter=False,
        sequence_number=1,
        delivery_count=0,
        enqueued_at=1_000,
        state="active",
        reason=None,
    )


def conclude(auditor: Auditor, path: str, *uids: str) -> None:
    """All that a queue holds."""
    auditor.tell_time(2_000)
    seen = [sighting(uid, path) for uid in uids]
    counts = Counts(
        active=len(uids),
        deferred=0,
        scheduled=0,
        dead_letter=0,
        size_bytes=10 * len(uids),
    )
    auditor.concluded(path, seen, counts)


@pytest.fixture
def auditor() -> Auditor:
    """`in` had x, which a lost commit was to move: completed, and sent on as y."""
    auditor = Auditor()
    auditor.tell_time(1_000)
    for path in ("in", "out"):
        auditor.queue_requested(path, RULES)
        auditor.queue_created(path)
    auditor.send_requested("x", "in", Sent(size_bytes=10))
    auditor.send_accepted("x")
    auditor.delivered(sighting("x", "in"), TOKEN, 61_000)
    auditor.send_requested("y", "out", Sent(size_bytes=10))
    auditor.settle_requested(TOKEN, "x", "complete", None)
    auditor.commit_unknown(["y"], [(TOKEN, "x", "complete")])
    auditor.locks_lost()
    return auditor


def test_all_of_it_may_have_happened(auditor: Auditor) -> None:
    conclude(auditor, "in")
    conclude(auditor, "out", "y")


def test_nothing_of_it_may_have_happened(auditor: Auditor) -> None:
    conclude(auditor, "in", "x")
    conclude(auditor, "out")


def test_sent_without_completed_is_noticed(auditor: Auditor) -> None:
    conclude(auditor, "out", "y")
    with pytest.raises(Violation, match="x is active, it should be gone"):
        conclude(auditor, "in", "x")


def test_not_completed_but_sent_is_noticed(auditor: Auditor) -> None:
    conclude(auditor, "in", "x")
    with pytest.raises(Violation, match="y is active, it should be never accepted"):
        conclude(auditor, "out", "y")


def test_completed_without_sent_is_noticed(auditor: Auditor) -> None:
    conclude(auditor, "in")
    with pytest.raises(Violation, match="y is lost; it should be active"):
        conclude(auditor, "out")


def test_neither_sent_nor_there_is_noticed(auditor: Auditor) -> None:
    conclude(auditor, "out")
    with pytest.raises(Violation, match="x is lost; it should be active"):
        conclude(auditor, "in")

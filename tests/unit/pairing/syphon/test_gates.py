"""When a closed entity is tried again, and when it is given up."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.gates import Gate, Gates
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.settings import SyphonSettings

DISABLED = RestoreRefusal(FailureKind.DISABLED, "disabled")
MISSING = RestoreRefusal(FailureKind.NOT_FOUND, "not found")
BUSY = RestoreRefusal(FailureKind.BUSY, "busy")


def gate() -> Gate:
    return Gate(SyphonSettings())


def test_intervals_grow_from_a_second_to_a_minute() -> None:
    closed = gate()
    waits = []
    now = 0
    for _ in range(8):
        closed.close(DISABLED, now)
        waits.append((closed.retry_at - now) // 1000)
        now = closed.retry_at
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_workers_that_fail_together_count_as_one() -> None:
    closed = gate()
    for _ in range(10):
        closed.close(DISABLED, 0)
    assert closed.retry_at == 1_000
    closed.probe()
    closed.close(DISABLED, 900)
    assert closed.retry_at == 2_900


def test_success_begins_anew() -> None:
    closed = gate()
    for now in (0, 1_000, 3_000):
        closed.close(DISABLED, now)
    assert closed.retry_at == 7_000
    assert closed.open()
    assert not closed.open()
    closed.close(DISABLED, 0)
    assert closed.retry_at == 1_000


def test_a_busy_entity_is_left_alone_for_ten_seconds() -> None:
    closed = gate()
    closed.close(BUSY, 0)
    assert not closed.may_probe(9_999)
    assert closed.may_probe(10_000)


def test_one_worker_tries_and_the_others_wait() -> None:
    closed = gate()
    closed.close(DISABLED, 0)
    assert not closed.may_probe(999)
    assert closed.may_probe(1_000)
    closed.probe()
    assert not closed.may_probe(1_000)


def test_a_try_that_told_nothing_is_not_repeated_at_once() -> None:
    closed = gate()
    closed.close(DISABLED, 0)
    closed.probe()
    closed.leave(1_000)
    assert not closed.may_probe(1_000)
    assert closed.may_probe(2_000)


def test_only_news_is_told() -> None:
    closed = gate()
    assert closed.close(DISABLED, 0)
    assert not closed.close(DISABLED, 1)
    assert closed.close(MISSING, 2)


def test_a_missing_entity_is_given_up_after_the_grace() -> None:
    closed = gate()
    hour = 3_600_000
    closed.close(MISSING, 0)
    closed.close(MISSING, hour - 1)
    assert not closed.is_given_up(hour - 1)
    assert closed.is_given_up(hour)
    # It is there, and something else is wrong with it.
    closed.close(DISABLED, hour)
    assert not closed.is_given_up(9 * hour)


def test_entities_are_the_same_in_any_letter_case() -> None:
    gates = Gates(SyphonSettings())
    gates.of("Orders").close(DISABLED, 0)
    assert not gates.of("orders").is_open
    assert gates.closed() == ["orders"]


@given(st.lists(st.tuples(st.sampled_from(list(FailureKind)), st.integers(0, 10**7))))
def test_the_next_try_is_never_later_than_in_a_minute(
    failures: list[tuple[FailureKind, int]],
) -> None:
    closed = gate()
    now = 0
    for kind, later_ms in failures:
        now += later_ms
        closed.close(RestoreRefusal(kind, ""), now)
        assert now < closed.retry_at <= now + 60_000
        assert closed.may_probe(closed.retry_at)

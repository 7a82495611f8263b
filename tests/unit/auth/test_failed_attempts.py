"""When an address has to wait, for which key name, and what is remembered."""

from twinbus.auth.failed_attempts import FailedAttempts
from twinbus.limits import (
    FAILED_PROOFS_ADDRESSES,
    FAILED_PROOFS_FORGOTTEN_MS,
    FAILED_PROOFS_NAMES,
    FAILED_PROOFS_WAIT_MS,
    FAILED_PROOFS_WAIT_MS_MAX,
)

HERE, THERE = "192.0.2.1", "192.0.2.2"
NOW = 1_000_000


def failed(times: int, *, allowed: int = 3, name: str = "root") -> FailedAttempts:
    attempts = FailedAttempts(allowed)
    for _ in range(times):
        attempts.failed(HERE, name, NOW)
    return attempts


def test_some_failures_have_no_consequence() -> None:
    assert failed(2).held_ms(HERE, "root", NOW) == 0


def test_next_attempt_waits_after_too_many() -> None:
    attempts = failed(3)
    assert attempts.held_ms(HERE, "root", NOW) == FAILED_PROOFS_WAIT_MS
    assert attempts.held_ms(HERE, "root", NOW + FAILED_PROOFS_WAIT_MS) == 0


def test_each_further_failure_doubles_the_wait_up_to_a_limit() -> None:
    attempts, waits = failed(3), []
    for _ in range(8):
        attempts.failed(HERE, "root", NOW)
        waits.append(attempts.held_ms(HERE, "root", NOW))
    assert waits[:3] == [2_000, 4_000, 8_000]
    assert waits[-1] == FAILED_PROOFS_WAIT_MS_MAX


def test_very_many_failures_cost_nothing_more() -> None:
    assert failed(10_000).held_ms(HERE, "root", NOW) == FAILED_PROOFS_WAIT_MS_MAX


def test_others_do_not_wait() -> None:
    attempts = failed(50)
    assert attempts.held_ms(HERE, "shop", NOW) == 0
    assert attempts.held_ms(THERE, "root", NOW) == 0


def test_right_key_ends_the_count() -> None:
    attempts = failed(2)
    attempts.proved(HERE, "root")
    assert len(attempts) == 0
    attempts.failed(HERE, "root", NOW)
    assert attempts.held_ms(HERE, "root", NOW) == 0


def test_failures_are_forgotten_after_a_while() -> None:
    attempts, later = failed(50), NOW + FAILED_PROOFS_FORGOTTEN_MS + 1
    attempts.failed(HERE, "root", later)
    assert attempts.held_ms(HERE, "root", later) == 0


def test_many_names_share_a_count() -> None:
    """An attacker cannot go on by changing the name, nor fill the memory."""
    attempts = FailedAttempts(3)
    for number in range(FAILED_PROOFS_NAMES + 5):
        attempts.failed(HERE, f"name-{number}", NOW)
    assert attempts.held_ms(HERE, "name-0", NOW) == 0
    assert attempts.held_ms(HERE, "another-name", NOW) > 0
    assert len(attempts._counts[HERE]) == FAILED_PROOFS_NAMES + 1


def test_addresses_are_bounded_and_the_oldest_is_forgotten_first() -> None:
    attempts = FailedAttempts(1)
    attempts.failed(HERE, "root", NOW)
    for number in range(FAILED_PROOFS_ADDRESSES - 1):
        attempts.failed(f"10.0.{number // 256}.{number % 256}", "root", NOW)
    # It fails again, and so it is not the oldest any more.
    attempts.failed(HERE, "root", NOW)
    attempts.failed(THERE, "root", NOW)
    assert len(attempts) == FAILED_PROOFS_ADDRESSES
    assert attempts.held_ms(HERE, "root", NOW) > 0
    assert attempts.held_ms("10.0.0.0", "root", NOW) == 0


def test_limit_can_be_switched_off() -> None:
    attempts = failed(1_000, allowed=0)
    assert (len(attempts), attempts.held_ms(HERE, "root", NOW)) == (0, 0)

"""A2: credits come with time, up to a burst, and what is owed is paid off first."""

from twinbus.throttling.credits import Credits


def test_burst_can_be_spent_at_once() -> None:
    credits = Credits(10, 5, 0)
    credits.spend(4)
    assert not credits.is_used_up
    credits.spend(1)
    assert credits.is_used_up
    assert credits.owed == 0


def test_credits_come_back_with_time_up_to_the_burst() -> None:
    credits = Credits(10, 5, 0)
    credits.spend(5)
    credits.top_up(50)
    assert not credits.is_used_up, "half an operation is more than none"
    credits.spend(1)
    assert credits.is_used_up
    credits.top_up(1_000_000)
    credits.spend(5)
    assert credits.is_used_up, "not more than the burst is saved up"


def test_what_was_done_without_credit_is_paid_off() -> None:
    credits = Credits(10, 5, 0)
    credits.spend(25)
    assert credits.owed == 20
    credits.top_up(1_900)
    assert (credits.is_used_up, credits.owed) == (True, 1)
    credits.top_up(2_100)
    assert not credits.is_used_up

"""The time that a call has left."""

from twinbus.pairing.deadline import Deadline


class HandClock:
    def __init__(self) -> None:
        self.at = 5_000
        self.wall = 0

    def monotonic(self) -> int:
        return self.at

    def now(self) -> int:
        return self.wall


def test_time_runs_out_and_does_not_become_negative() -> None:
    clock = HandClock()
    deadline = Deadline(clock, 100)
    clock.at += 99
    assert deadline.left_ms() == 1
    assert not deadline.is_over()
    clock.at += 1
    assert deadline.is_over()
    clock.at += 50
    assert deadline.left_ms() == 0


def test_the_wall_clock_does_not_matter() -> None:
    clock = HandClock()
    deadline = Deadline(clock, 100)
    clock.wall += 1_000_000
    assert deadline.left_ms() == 100

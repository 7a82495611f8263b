"""Figures as people read them."""

import pytest

from twinbus.spark.jobs.report.readable import bytes_text, count_text, ms_text, short


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "none"),
        (0, "< 1 ms"),
        (1, "1 ms"),
        (1.26, "1.3 ms"),
        (999.4, "999 ms"),
        (1_000, "1 s"),
        (90_000, "1.5 min"),
        (36_000_000, "10 h"),
        (-2_000, "-2 s"),
    ],
)
def test_durations_have_two_digits_or_three(ms: float | None, text: str) -> None:
    assert ms_text(ms) == text


def test_thousands_are_told_apart() -> None:
    assert count_text(1_234_567) == "1\u202f234\u202f567"
    assert (bytes_text(999), bytes_text(1_500), bytes_text(2 * 10**9)) == (
        "999 B",
        "1.5 kB",
        "2.0 GB",
    )


def test_a_long_name_keeps_both_ends() -> None:
    assert short("abcdefghij", 5) == "ab\u2026ij"
    assert short("a\nb", 5) == "a b"
    assert short(None, 5) == ""

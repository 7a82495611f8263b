"""LIKE patterns, one rule at a time. That they never take long is in tests/hostile."""

import pytest

from twinbus.limits import LIKE_PATTERN_CHARACTERS
from twinbus.rules.filter_error import FilterError
from twinbus.rules.like import LikePattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("abc", "abc"),
        ("%", ""),
        ("%", "anything"),
        ("a%", "a"),
        ("a%", "abc"),
        ("%c", "abc"),
        ("%b%", "abc"),
        ("a%c", "ac"),
        ("a%b%c", "axxbyyc"),
        ("%ab%ab%", "abab"),
        ("%%", "x"),
        ("a_c", "abc"),
        ("_", "\U0001f600"),
        ("a_%", "ab"),
        ("%_", "x"),
        ("%a_c%", "xxabcxx"),
        ("line%", "line\nbreak"),
        ("_", "\n"),
        ("a.c", "a.c"),
    ],
)
def test_patterns_match(pattern: str, text: str) -> None:
    assert LikePattern(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", "a"),
        ("abc", "ABC"),
        ("abc", "abcd"),
        ("a%", "ba"),
        ("%a", "ab"),
        ("a%a", "a"),
        ("%ab%ab%", "aab"),
        ("_", ""),
        ("_", "ab"),
        ("a_", "a"),
        ("a_%", "a"),
        ("a.c", "abc"),
        ("[a-c]", "b"),
    ],
)
def test_patterns_do_not_match(pattern: str, text: str) -> None:
    assert not LikePattern(pattern).matches(text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("ABC!%", "ABC%", True),
        ("ABC!%", "ABCD", False),
        ("a!_c", "a_c", True),
        ("a!_c", "abc", False),
        ("a!!c", "a!c", True),
        ("a!bc", "abc", True),
        ("100!%%", "100% sure", True),
        ("_!%", "5%", True),
        ("abc!", "abc!", True),
    ],
)
def test_escape_takes_the_meaning_from_what_follows(
    pattern: str, text: str, matches: bool
) -> None:
    assert LikePattern(pattern, "!").matches(text) is matches


def test_wildcards_may_escape_themselves() -> None:
    assert LikePattern("100%%", "%").matches("100%")
    assert not LikePattern("100%%", "%").matches("100 euros")


def test_too_long_a_pattern_is_refused() -> None:
    assert LikePattern("a" * LIKE_PATTERN_CHARACTERS).matches("a" * 1024)
    with pytest.raises(FilterError, match=str(LIKE_PATTERN_CHARACTERS)):
        LikePattern("a" * (LIKE_PATTERN_CHARACTERS + 1))

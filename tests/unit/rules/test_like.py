"""LIKE patterns, one rule at a time. Their running time is tested in tests/hostile."""

import pytest

from twinbus.limits import LIKE_PATTERN_CHARACTERS, RULE_TEXT_STEPS
from twinbus.rules.filter_error import FilterError
from twinbus.rules.like import LikePattern
from twinbus.rules.text_work import TextWork


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
    assert LikePattern(pattern).matches(text, TextWork())


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
    assert not LikePattern(pattern).matches(text, TextWork())


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
    assert LikePattern(pattern, "!").matches(text, TextWork()) is matches


def test_wildcards_may_escape_themselves() -> None:
    assert LikePattern("100%%", "%").matches("100%", TextWork())
    assert not LikePattern("100%%", "%").matches("100 euros", TextWork())


def test_too_long_a_pattern_is_refused() -> None:
    assert LikePattern("a" * LIKE_PATTERN_CHARACTERS).matches("a" * 1024, TextWork())
    with pytest.raises(FilterError, match=str(LIKE_PATTERN_CHARACTERS)):
        LikePattern("a" * (LIKE_PATTERN_CHARACTERS + 1))


def steps(pattern: str, text: str) -> int:
    """What it takes to say whether the text matches."""
    work = TextWork()
    LikePattern(pattern).matches(text, work)
    return RULE_TEXT_STEPS - work.left


@pytest.mark.parametrize(
    "pattern", ["%x_y%", "%a_x%", "%a%_%x%", "%a_a_a_a_x%", "a_%_x", "%" + "_" * 900]
)
def test_what_is_not_there_is_found_out_by_passing_over_the_text(pattern: str) -> None:
    assert steps(pattern, "a " * 30_000) < 60_000 // 64 + 100


def test_texts_in_which_python_searches_slowly_cost_more() -> None:
    text = "a" * 60_000
    assert steps("%1%", text) < steps("%order%", text) < steps("%12%", text)
    assert steps("%12%", text) < steps(f"%{'a' * 900}b%", text) < RULE_TEXT_STEPS // 100


def test_steps_grow_with_the_text_and_not_with_its_square() -> None:
    pattern = "%a_b_c%"
    small, large = steps(pattern, "ab" * 1_000), steps(pattern, "ab" * 4_000)
    assert 0 < large < 5 * small


def test_a_message_that_costs_too_much_fails_its_filters() -> None:
    """Nearly every piece of the pattern stands at nearly every place of the text."""
    pattern = LikePattern("%" + "a_" * 300 + "b%")
    text = "ab" * 30_000
    with pytest.raises(FilterError, match="too long for the filters"):
        pattern.matches(text, TextWork())


def test_filters_of_a_topic_share_what_a_message_may_cost() -> None:
    work = TextWork()
    pattern = LikePattern("%a_b%")
    text = "ab" * 10_000
    assert steps("%a_b%", text) < RULE_TEXT_STEPS // 3
    with pytest.raises(FilterError, match=f"more than {RULE_TEXT_STEPS} steps"):
        for _ in range(1_900):
            assert not pattern.matches(text, work)


def test_a_thousand_likes_may_pass_over_a_long_text_in_vain() -> None:
    work = TextWork()
    text = "the quick brown fox " * 3_000
    for number in range(1_000):
        assert not LikePattern(f"%order_{number}_%").matches(text, work)

"""LIKE agrees with a table of all prefixes, which is slow and obviously right."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.rules.like import LikePattern
from twinbus.rules.text_work import TextWork

TEXTS = st.text(alphabet="ab", max_size=12)
PATTERNS = st.text(alphabet="ab%_!", max_size=10)


def items(pattern: str, escape: str) -> list[str]:
    """`%`, `_`, or a backslash in front of a character that means itself."""
    found: list[str] = []
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            found.append("\\" + next(rest, escape))
        elif character in "%_":
            found.append(character)
        else:
            found.append("\\" + character)
    return found


def matches(pattern: list[str], text: str) -> bool:
    """Row by row: which prefixes of the text do the first items match?"""
    row = [True] + [False] * len(text)
    for item in pattern:
        following = [row[0] and item == "%"]
        for at, character in enumerate(text, start=1):
            if item == "%":
                following.append(row[at] or following[at - 1])
            else:
                following.append(row[at - 1] and item in ("_", "\\" + character))
        row = following
    return row[-1]


@given(pattern=PATTERNS, text=TEXTS)
def test_like_is_what_the_table_says(pattern: str, text: str) -> None:
    assert LikePattern(pattern).matches(text, TextWork()) == matches(
        items(pattern, ""), text
    )


@given(
    pattern=PATTERNS,
    text=st.text(alphabet="ab%_!", max_size=10),
    escape=st.sampled_from("!%_a"),
)
def test_like_with_an_escape_is_what_the_table_says(
    pattern: str, text: str, escape: str
) -> None:
    found = LikePattern(pattern, escape).matches(text, TextWork())
    assert found == matches(items(pattern, escape), text)

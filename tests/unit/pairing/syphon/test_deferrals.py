"""The positions of an entity's deferred messages."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.syphon.deferrals import Deferrals
from twinbus.pairing.syphon.ports import BacklogPage, Glimpse


def page(*glimpses: tuple[int, str], end: int | None) -> BacklogPage:
    return BacklogPage(tuple(Glimpse(*one) for one in glimpses), len(glimpses), end)


def test_a_page_gives_what_is_wanted_in_order() -> None:
    book = Deferrals()
    for number, path in ((1, "a"), (2, "b"), (5, "A")):
        book.note(path, number)
    seen = page((1, "a"), (2, "b"), (5, "A"), (6, "other"), end=7)
    wanted = book.wanted(seen, ["a"])
    assert {
        path: [glimpse.sequence_number for glimpse in glimpses]
        for path, glimpses in wanted.items()
    } == {"a": [1, 5]}


def test_an_entity_leaves_when_its_last_message_was_passed() -> None:
    book = Deferrals()
    book.note("a", 1)
    book.note("a", 9)
    assert not book.passed("a", page((1, "a"), end=5))
    assert book.spans()[0].first == 5
    # Another one was deferred behind them meanwhile.
    book.note("a", 12)
    assert not book.passed("a", page((9, "a"), end=10))
    assert book.passed("a", page((12, "a"), end=13))
    assert "a" not in book


def test_the_end_of_the_queue_is_the_end_of_all() -> None:
    book = Deferrals()
    book.note("a", 9)
    assert book.passed("a", page(end=None))
    assert len(book) == 0


@given(
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from("abc")), max_size=60),
    st.integers(1, 20),
)
def test_nothing_is_passed_over(noted: list[tuple[int, str]], page_size: int) -> None:
    """Walking an entity's span page by page meets all of its messages, in order."""
    messages = {number: path for number, path in noted}
    book = Deferrals()
    for number, path in sorted(messages.items()):
        book.note(path, number)
    met: list[int] = []
    while "a" in book:
        (first,) = (span.first for span in book.spans() if span.path == "a")
        behind = sorted(number for number in messages if number >= first)[:page_size]
        end = behind[-1] + 1 if behind else None
        seen = page(*((number, messages[number]) for number in behind), end=end)
        met += [one.sequence_number for one in book.wanted(seen, ["a"]).get("a", [])]
        book.passed("a", seen)
    assert met == sorted(number for number, path in messages.items() if path == "a")

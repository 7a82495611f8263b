"""What the docs must say about pairs: costs (P13), and what to accept (P15)."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "pairing.md"


def _text() -> str:
    return " ".join(PAGE.read_text().lower().split())


@pytest.mark.parametrize(
    "figure", ["40", "960", "28,800", "receive from the primary | 4"]
)
def test_the_page_says_what_a_pair_costs(figure: str) -> None:
    """P13: receives of ten idle backlog queues, and operations of one message."""
    assert figure in _text()


@pytest.mark.parametrize(
    "words",
    [
        ("receive", "primary only"),
        ("order",),
        ("session state",),
        ("before the backlog",),
    ],
    ids=lambda words: words[-1],
)
def test_the_page_says_what_an_application_must_accept(words: tuple[str, ...]) -> None:
    """P15: it receives from the primary only, and order may change."""
    assert [word for word in words if word not in _text()] == []


def test_the_page_has_the_table_of_what_counts() -> None:
    """P7: a table in code and docs."""
    text = _text()
    kinds = ("time-out", "server busy", "quota", "authentication", "too large")
    assert [kind for kind in kinds if kind not in text] == []


def test_the_page_says_who_runs_the_syphon_and_how_many_queues() -> None:
    """P12, P13: the receivers do; with one backlog queue, its failure fails sends."""
    text = _text()
    assert "enable_syphon" in text
    assert "backlog_queue_count" in text


def test_the_page_says_that_callers_wait_ten_seconds() -> None:
    """A2, P7: back-off after server-busy."""
    assert "10 seconds" in _text()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("G4", ("several backlog queues", "its failure fails the send")),
        ("G5", ("at least one process must run it", "hundred times as much")),
        ("G8", ("each queue holds 5 gb", "20 gb a day", "longest outage")),
        ("G9", ("separate data centres", "separate power, network and upgrades")),
        ("P4", ("are not sent to", "the syphon empties all backlog queues that exist")),
        (
            "P13",
            ("60 requests an hour", "10 an hour for ten", "every ten surplus queues"),
        ),
        ("P14", ("without a syphon the pair continues to send",)),
        ("P1", ("pairing_timeout", "which side did not answer")),
        ("P7", ("reason:message-store",)),
    ],
)
def test_the_page_says_what_the_rows_ask_for(row: str, words: tuple[str, ...]) -> None:
    """P1, P4, P7, P13, P14, G4, G5, G8, G9: row, code and page agree."""
    text = _text().replace("**", "").replace("`", "")
    assert [word for word in words if word not in text] == [], row

"""Price books are data; the two that come with the package count as promised."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.meter.price_book import BUILT_IN, PriceBookError, price_book

TEXT = """
name = "ours"
title = "Ours"
currency = "EUR"
price_per_million = 2.0
unit_bytes = 1000
by_size = ["send"]
[counts]
send = 1
complete = 0.5
"""


def test_the_documents_count_messages_sent_or_delivered() -> None:
    book = price_book("documents")
    assert book.of_message(200_000, "send", "lock", "complete") == 2
    assert book.of_message(100, "receive_empty") == book.of_message(0, "ping") == 1
    assert book.of_message(0, "administration", "renew", "peek") == 0


@pytest.mark.parametrize(
    ("size_bytes", "billed"), [(0, 3), (65_536, 3), (65_537, 5), (200_000, 9)]
)
def test_the_service_counts_interactions_per_64_kb(
    size_bytes: int, billed: int
) -> None:
    assert price_book("service").of_message(size_bytes, "send", "lock", "complete") == (
        billed
    )


def test_a_renewal_and_an_administration_request_count_once_in_the_service() -> None:
    book = price_book("service")
    assert book.of_message(1_000_000, "renew") == 1
    assert book.of_message(0, "administration") == 1


def test_a_book_of_our_own_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(TEXT)
    book = price_book(str(file))
    assert book.of_message(2_500, "send", "complete", "lock") == 3.5
    assert book.cost(3_000_000) == 6.0


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('currency = "EUR"', "", "no 'currency'"),
        ("send = 1", "sned = 1", "'sned' is not known"),
        ('by_size = ["send"]', 'by_size = ["sends"]', "'sends' is not known"),
        ("unit_bytes = 1000", "unit_bytes = -1", "negative"),
        ("[counts]", "[counts", "Expected"),
        ('title = "Ours"', 'titel = "Ours"\ntitle = "O"', "'titel' is not known"),
    ],
)
def test_a_wrong_book_is_refused(
    before: str, after: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(TEXT.replace(before, after))
    with pytest.raises(PriceBookError, match=said):
        price_book(str(file))


def test_a_book_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(PriceBookError, match=", ".join(BUILT_IN)):
        price_book("nowhere.toml")

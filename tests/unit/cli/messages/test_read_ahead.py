"""What is to be sent is read in a thread, and given on at once."""

import threading
from collections.abc import Iterator

import pytest

from twinbus.cli.messages.read_ahead import read_ahead


async def test_all_comes_in_order() -> None:
    found: list[int] = []
    async for portion in read_ahead(range(20_000), 1_000):
        assert 0 < len(portion) <= 1_000
        found += portion
    assert found == list(range(20_000))


async def test_nothing_is_held_back() -> None:
    go_on = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        assert go_on.wait(30)
        yield 2

    portions = []
    async for portion in read_ahead(source(), 1_000):
        portions.append(portion)
        go_on.set()
    assert portions == [[1], [2]]


async def test_what_was_read_before_a_failure_comes_first() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("line 2")

    found: list[int] = []
    with pytest.raises(ValueError, match="line 2"):
        async for portion in read_ahead(source(), 10):
            found += portion
    assert found == [1]

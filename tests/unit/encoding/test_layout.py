"""The layout number keeps its parts; it is part of the stored format."""

import pytest

from twinbus.encoding.layout import (
    bare_offset,
    is_durable,
    pack_layout,
    priority_of,
)


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("priority", [0, 4, 255])
@pytest.mark.parametrize("bare_at", [0, 1, 65_536, 100 * 1024 * 1024])
def test_parts_come_out_as_they_went_in(
    annotated: bool, durable: bool, priority: int, bare_at: int
) -> None:
    layout = pack_layout(annotated, durable, priority, bare_at)
    assert layout & 1 == annotated
    assert is_durable(layout) == durable
    assert priority_of(layout) == priority
    assert bare_offset(layout) == bare_at


def test_stored_numbers_mean_what_they_meant() -> None:
    assert pack_layout(True, True, 4, 300) == 1 | 2 | 4 << 2 | 300 << 16

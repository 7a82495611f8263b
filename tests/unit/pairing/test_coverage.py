"""Which entities a pair covers."""

import pytest

from twinbus.pairing.coverage import covers_any


@pytest.mark.parametrize(
    ("patterns", "path", "is_covered"),
    [
        ((), "anything", True),
        (("orders*",), "Orders-eu", True),
        (("ORDERS",), "orders", True),
        (("orders",), "orders-eu", False),
        (("a", "b/*"), "b/c", True),
    ],
)
def test_patterns_cover_paths(
    patterns: tuple[str, ...], path: str, is_covered: bool
) -> None:
    assert covers_any(patterns)(path) is is_covered

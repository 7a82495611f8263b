"""In no table of any width is a name broken."""

import pytest

from twinbus.cli.tables import one_line, table_lines

HEADINGS = ("name", "kind", "active", "size")
LONG = "a-long-name/" * 8
ROWS = [("orders", "queue", "12", "1.5 KB"), (LONG, "subscription", "3", "0 B")]


def lines(width: int, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    return [str(line) for line in table_lines(HEADINGS, rows, width, right=(2, 3))]


def test_rows_that_fit_are_columns() -> None:
    assert lines(80, ROWS[:1]) == [
        "name    kind   active    size",
        "orders  queue      12  1.5 KB",
    ]


def test_name_that_is_too_long_has_a_line_of_its_own() -> None:
    assert lines(80) == [
        "name    kind          active    size",
        "orders  queue             12  1.5 KB",
        LONG,
        "        subscription       3     0 B",
    ]


def test_where_nothing_fits_each_value_has_a_line() -> None:
    assert lines(30)[:4] == [
        "orders",
        "  kind    queue",
        "  active  12",
        "  size    1.5 KB",
    ]


@pytest.mark.parametrize("width", range(10, 140))
def test_names_are_never_broken(width: int) -> None:
    shown = lines(width)
    for name in ("orders", LONG):
        assert any(line.startswith(name) for line in shown)
    without_names = [line for line in shown if LONG not in line]
    assert max(map(len, without_names)) <= max(width, 24)


def test_strangers_do_not_write_on_the_terminal() -> None:
    assert one_line("a\x1b[2Jb\nc") == "a [2Jb c"
    assert "\x1b" not in lines(80, [("\x1bx", "", "", "")])[1]

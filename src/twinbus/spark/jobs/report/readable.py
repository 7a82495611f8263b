"""Figures as people read them."""

from datetime import datetime
from typing import Final

_UNITS: Final = (
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
    (1, "ms"),
)


def ms_text(ms: float | None) -> str:
    """A duration with two or three digits: `0.5 ms`, `12 ms`, `1.5 s`, `2 h`."""
    if ms is None:
        return "none"
    if ms < 0:
        return f"-{ms_text(-ms)}"
    if ms < 1:
        return "< 1 ms"
    size, unit = next(item for item in _UNITS if ms >= item[0])
    value = ms / size
    return (
        f"{value:.0f} {unit}"
        if value >= 10
        else f"{value:.1f} {unit}".replace(".0 ", " ")
    )


def count_text(count: int) -> str:
    """With thin spaces between thousands, which no country takes for a point."""
    return f"{count:,}".replace(",", "\u202f")


def counted(count: int, word: str) -> str:
    """`1 outage`, `2 outages`."""
    return f"{count_text(count)} {word}{'' if count == 1 else 's'}"


def bytes_text(count: int) -> str:
    value, units = float(count), ["B", "kB", "MB", "GB"]
    while value >= 1_000 and len(units) > 1:
        value /= 1_000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if value >= 10 else f"{value:.1f} {units[0]}"


def time_text(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def short(text: str | None, length: int) -> str:
    """A text from a stranger on one line, cut in its middle, where paths differ
    least."""
    line = "".join(c if c.isprintable() else " " for c in text or "")
    if len(line) <= length:
        return line
    head = (length - 1) // 2
    return f"{line[:head]}\u2026{line[len(line) - (length - 1 - head) :]}"

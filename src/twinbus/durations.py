"""Durations as people and SDKs write them: ISO 8601, short forms, timedelta.

    PT30S   P1DT2H   30s   5m   1h30m   7d   unlimited   timedelta(seconds=30)

Inside, a duration is whole milliseconds, and 0 where it is unlimited. So no time at
all cannot be said, and nothing that has a duration here would want it.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from twinbus.limits import DURATION_MS_UNLIMITED

_ISO: Final = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_SHORT: Final = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?",
    re.ASCII,
)
_UNIT_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}

_UNLIMITED: Final = "unlimited"


def duration_ms(value: object) -> int:
    """Whole milliseconds; 0 for what is unlimited. Raises ValueError."""
    if value == _UNLIMITED:
        return 0
    if isinstance(value, timedelta):
        total = value // timedelta(milliseconds=1)
    else:
        total = _parse(str(value))
    if total <= 0:
        raise ValueError(f"{str(value)!r} is not longer than a moment")
    return 0 if total >= DURATION_MS_UNLIMITED else total


def _parse(text: str) -> int:
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    parts = {} if match is None else match.groupdict()
    if not any(parts.values()):
        raise ValueError(
            f"{text!r} is not a duration; write for instance PT30S, 30s, 5m or P1DT2H"
        )
    total = Decimal(0)
    for unit, amount in parts.items():
        if amount is not None:
            total += Decimal(amount) * _UNIT_MS[unit]
    # Before it is made an integer: an absurd number would have as many digits.
    return round(min(total, Decimal(DURATION_MS_UNLIMITED)))


def iso_duration(milliseconds: int) -> str:
    """ISO 8601; the service's maximum for 0, which means unlimited."""
    if milliseconds == 0:
        return "P10675199DT2H48M5.4775807S"
    days, hours, minutes, seconds = _units(milliseconds)
    date = f"P{days}D" if days else "P"
    time = f"{hours}H" if hours else ""
    time += f"{minutes}M" if minutes else ""
    time += f"{seconds}S" if seconds != "0" else ""
    return f"{date}T{time}" if time else date


def readable_duration(milliseconds: int) -> str:
    """The short form, which `duration_ms` reads."""
    if milliseconds == 0:
        return _UNLIMITED
    days, hours, minutes, seconds = _units(milliseconds)
    text = f"{days}d" if days else ""
    text += f"{hours}h" if hours else ""
    text += f"{minutes}m" if minutes else ""
    text += f"{seconds}s" if seconds != "0" else ""
    return text


def _units(milliseconds: int) -> tuple[int, int, int, str]:
    """Days, hours, minutes, and seconds with their fraction."""
    seconds, rest_ms = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{rest_ms:03d}".rstrip("0") if rest_ms else ""
    return days, hours, minutes, f"{seconds}{fraction}"

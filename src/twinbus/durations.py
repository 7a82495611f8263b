"""Durations as people and SDKs write them: ISO 8601, short forms, timedelta.

PT30S   P1DT2H   30s   5m   1h30m   7d   timedelta(seconds=30)
"""

import re
from datetime import timedelta
from typing import Final

from twinbus.limits import DURATION_MS_UNLIMITED

_ISO: Final = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT: Final = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?"
)
_UNIT_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


def duration_ms(value: object) -> int:
    """Whole milliseconds; 0 for what means "for ever". Raises ValueError."""
    if isinstance(value, timedelta):
        total = value // timedelta(milliseconds=1)
    else:
        total = _parse(str(value))
    return 0 if total >= DURATION_MS_UNLIMITED else total


def _parse(text: str) -> int:
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    parts = {} if match is None else match.groupdict()
    if not any(parts.values()):
        raise ValueError(
            f"{text!r} is not a duration; write for instance PT30S, 30s, 5m or P1DT2H"
        )
    total = 0.0
    for unit, amount in parts.items():
        if amount is not None:
            total += float(amount) * _UNIT_MS[unit]
    return round(total)


def iso_duration(milliseconds: int) -> str:
    """ISO 8601; the service's maximum for 0, which means "for ever"."""
    if milliseconds == 0:
        return "P10675199DT2H48M5.4775807S"
    seconds, rest_ms = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{rest_ms:03d}".rstrip("0") if rest_ms else ""
    text = f"P{days}D" if days else "P"
    time = f"{hours}H" if hours else ""
    time += f"{minutes}M" if minutes else ""
    time += f"{seconds}{fraction}S" if seconds or rest_ms else ""
    return f"{text}T{time}" if time else text

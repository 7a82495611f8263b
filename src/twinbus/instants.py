"""Instants, which are milliseconds since the epoch here, and `datetime` elsewhere."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def instant_ms(instant: datetime) -> int:
    """Milliseconds since the epoch. An instant without a time zone is UTC."""
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def instant_of(at: int) -> datetime:
    """The instant so many milliseconds after the epoch."""
    return _EPOCH + at * _MILLISECOND

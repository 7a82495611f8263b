"""Checks what the two namespaces offer the job, and explains their errors."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.foreign import offered_by
from twinbus.spark.secret import SecretError
from twinbus.spark.syphon.backlog import Backlog
from twinbus.spark.syphon.errors import (
    NotOffered,
    SideAway,
    SideRefuses,
    SyphonError,
)
from twinbus.spark.syphon.options import SyphonOptions

_OF_SECONDARY: Final = frozenset(("browse", "lease", "plan", "runtime", "settle"))
_OF_PRIMARY: Final = frozenset(("append",))

_WITHOUT_ARROW: Final = (
    "is a twinbus without pyarrow: install 'twinbus[spark]' there, and start it again."
)
_SECONDARY_FOREIGN: Final = (
    "is not twinbus, or strict. The Spark syphon holds reader leases there, which only "
    "twinbus has. Use `twinbus syphon`, which works with any namespace."
)
_PRIMARY_FOREIGN: Final = (
    "is not twinbus, or strict. The Spark syphon sends by bulk appends with a restore "
    "ledger, which only twinbus has; elsewhere messages could be doubled. Use `twinbus "
    "syphon`, which works with any namespace."
)


def check_sides(options: SyphonOptions) -> None:
    """Raises NotOffered, SideAway, SideRefuses."""
    for side, needed, foreign in (
        ("secondary", _OF_SECONDARY, _SECONDARY_FOREIGN),
        ("primary", _OF_PRIMARY, _PRIMARY_FOREIGN),
    ):
        with told(side):
            connection = options.connection(side)
            address = connection.open().url
            offered = offered_by(connection, options.timeout_ms)
        if not needed <= offered:
            why = _WITHOUT_ARROW if offered else foreign
            raise NotOffered(f"The {side} {address} {why}")


@contextmanager
def told(side: str) -> Iterator[None]:
    """Turns errors of a namespace into errors of the job."""
    try:
        yield
    except SecretError as error:
        raise SyphonError(f"The {side}: {error}") from None
    except BulkError as error:
        raise as_told(side, error) from None


def as_told(side: str, error: BulkError) -> SyphonError:
    if error.status in (401, 403):
        return SideRefuses(f"The {side}: {error}")
    if error.status == 0 or error.status >= 500:
        return SideAway(f"The {side} cannot be reached: {error}")
    return SyphonError(f"The {side}: {error}")


def diagnosed(options: SyphonOptions, reader: str, error: Exception) -> SyphonError:
    """Why a query ended: Spark has the error of its source as a text in a text."""
    try:
        with told("secondary"):
            backlog = Backlog(options, reader)
            try:
                backlog.look()
            finally:
                backlog.close()
    except SyphonError as found:
        return found
    return SyphonError(f"The query failed: {_last_line(str(error))}")


def _last_line(text: str) -> str:
    """The line of the error in tracebacks from Spark; if possible, of our error."""
    named: list[str] = re.findall(
        r"^\s*(?:\w+\.)*\w*(?:Error|Exception|Loss): .+", text, re.M
    )
    ours = [line for line in named if line.lstrip().startswith("twinbus.")]
    found = (ours or named or [f": {text}"])[-1]
    return found.partition(": ")[2].strip()

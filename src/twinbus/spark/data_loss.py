"""Messages that a query should have read are gone: an error, or a warning.

The option `failOnDataLoss` decides which of the two.
"""

import logging

from twinbus.spark.plain_error import PlainError

_log = logging.getLogger(__name__)


class DataLoss(PlainError):
    """Messages that were planned are not there any more."""


def report_loss(text: str, *, fails: bool) -> None:
    """Raises DataLoss if the query has to fail; else logs a warning."""
    if fails:
        raise DataLoss(f"{text} Set failOnDataLoss to false to go on without them.")
    _log.warning(text)

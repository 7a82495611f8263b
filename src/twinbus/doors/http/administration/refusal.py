"""Refusals for administration clients: a status, and a detail with a code.

The detail begins with `SubCode=`, by which JavaScript and .NET distinguish a quota from
an invalid operation, and ends with the tracking id of the log.
"""

import logging
from typing import Final
from uuid import uuid4

from twinbus.doors.http.administration.xml_writing import error_document
from twinbus.doors.http.response import HttpResponse
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotAllowed,
    QuotaExceeded,
    ServiceBusError,
)

_log = logging.getLogger(__name__)

XML: Final = "application/xml;charset=utf-8"

# Status and sub-code, where they differ from the error's own status.
_CODES: Final[dict[type[ServiceBusError], tuple[int, int]]] = {
    ArgumentError: (400, 40000),
    ArgumentOutOfRange: (400, 40000),
    QuotaExceeded: (403, 40300),
    # By this code clients distinguish it from a quota.
    NotAllowed: (403, 40301),
    MessagingEntityNotFound: (404, 40400),
    EntityAlreadyExists: (409, 40900),
}


class Refusal(Exception):
    """A refusal that exists only in HTTP."""

    def __init__(
        self, status: int, text: str, *, sub_code: int = 0, allow: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.sub_code = sub_code or status * 100
        # For 405: the allowed methods.
        self.allow = allow


def refusal_response(error: ServiceBusError | Refusal) -> HttpResponse:
    """The answer to a request that was refused."""
    headers = {"content-type": XML}
    if isinstance(error, Refusal):
        status, sub_code = error.status, error.sub_code
        if error.allow:
            headers["allow"] = error.allow
    else:
        status = error.http_status
        status, sub_code = _CODES.get(type(error), (status, status * 100))
    tracking_id = str(uuid4())
    _log.info("refused: %d %s TrackingId:%s", status, error.text, tracking_id)
    detail = f"SubCode={sub_code}. {error.text} TrackingId:{tracking_id}"
    return HttpResponse(
        status=status, body=error_document(status, detail), headers=headers
    )

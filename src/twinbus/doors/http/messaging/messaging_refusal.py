"""Refusals of messaging requests: the statuses of the service's REST interface."""

from typing import Final

from twinbus.doors.http.administration.refusal import Refusal, refusal_response
from twinbus.doors.http.response import HttpResponse
from twinbus.errors import (
    MessageLockLost,
    MessagingEntityNotFound,
    ServiceBusError,
    SessionLockLost,
)

_STATUSES: Final[dict[type[ServiceBusError], int]] = {
    # 404 is for messages and locks here.
    MessagingEntityNotFound: 410,
    MessageLockLost: 404,
    SessionLockLost: 404,
}

_RETRY_SECONDS: Final = "1"


def messaging_refusal(error: ServiceBusError) -> HttpResponse:
    """The answer to a request that was refused."""
    status = _STATUSES.get(type(error), error.http_status)
    response = refusal_response(Refusal(status, error.text))
    if status != 503:
        return response
    return HttpResponse(
        status=status,
        body=response.body,
        headers={**response.headers, "retry-after": _RETRY_SECONDS},
    )

"""Responses in JSON, for the requests that Service Bus does not have."""

import json

from twinbus.doors.http.response import HttpResponse
from twinbus.errors import ServiceBusError


def json_text(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))


def json_response(content: object, status: int = 200) -> HttpResponse:
    return HttpResponse(
        status=status,
        body=json_text(content).encode(),
        headers={"content-type": "application/json"},
    )


def json_refusal(error: ServiceBusError, status: int = 0) -> HttpResponse:
    """The answer to a request that was refused."""
    content = {
        "error": {
            "condition": error.condition,
            "message": error.text,
            "entity": error.entity_path,
            "retryable": error.retryable,
        }
    }
    return json_response(content, status or error.http_status)

"""Detects namespaces that cannot be a twinbus, without waiting for them.

A bus that does not answer may be starting, so a reader waits for it. For the vendor's
service it would wait in vain: that has HTTP at another port, and no bulk requests. So
the vendor's hosts are known by name. Other peers are known by the AMQP header that they
send in answer to anything.
"""

import contextlib
import http.client
from typing import Final

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.connection import SparkConnection

_VENDOR_DOMAINS: Final = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.cloudapi.de",
)
_TIMEOUT_SECONDS: Final = 5.0
_AMQP: Final = "AMQP"


def offered_by(connection: SparkConnection, patience_ms: int) -> frozenset[str]:
    """Which bulk requests a namespace knows; none if it is not a twinbus. Raises
    BulkError if it does not answer in time."""
    if speaks_amqp_alone(connection):
        return frozenset()
    with contextlib.closing(BulkClient(connection, patience_ms)) as client:
        return client.offered()


def speaks_amqp_alone(connection: SparkConnection) -> bool:
    """False does not prove that it is a twinbus: a bulk request finds that out."""
    opened = connection.open()
    if opened.host.lower().endswith(_VENDOR_DOMAINS):
        return True
    with contextlib.closing(opened.http_client(_TIMEOUT_SECONDS)) as client:
        return _answers_in_amqp(client)


def _answers_in_amqp(client: http.client.HTTPConnection) -> bool:
    try:
        client.request("GET", "/$bulk")
        client.getresponse()
    except http.client.BadStatusLine as error:
        return _AMQP in str(error)
    except (OSError, http.client.HTTPException):
        pass
    return False

"""Detects namespaces that cannot be a twinbus, without waiting for them.

A bus that does not answer may be starting, so a reader waits for it. For the vendor's
service it would wait in vain: that has HTTP at another port, and no bulk requests. So
the vendor's hosts are known by name. Other peers are known by the AMQP header that they
send in answer to anything.
"""

import contextlib
import http.client
from typing import Final
from urllib.parse import urlsplit

from twinbus.spark.connection import SparkConnection

_VENDOR_DOMAINS: Final = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.cloudapi.de",
)
_TIMEOUT_SECONDS: Final = 5.0
_AMQP: Final = "AMQP"


def speaks_amqp_alone(connection: SparkConnection) -> bool:
    """False does not prove that it is a twinbus: a bulk request finds that out."""
    opened = connection.open()
    if opened.host.lower().endswith(_VENDOR_DOMAINS):
        return True
    url = urlsplit(opened.url)
    assert url.hostname is not None
    client: http.client.HTTPConnection
    if url.scheme == "https":
        client = http.client.HTTPSConnection(
            url.hostname,
            url.port,
            timeout=_TIMEOUT_SECONDS,
            context=connection.tls(),
        )
    else:
        client = http.client.HTTPConnection(
            url.hostname, url.port, timeout=_TIMEOUT_SECONDS
        )
    with contextlib.closing(client):
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

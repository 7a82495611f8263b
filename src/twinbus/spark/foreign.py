"""Telling a namespace that cannot be a twinbus, without waiting for it.

A bus that does not answer may be starting, and is waited for. The vendor's service
would be waited for in vain: it has HTTP at another port, and no bulk requests there.
So its hosts are known by name, and any other peer by the header that AMQP begins with,
which it sends whatever it is asked.
"""

import contextlib
import http.client
from typing import Final
from urllib.parse import urlsplit

from twinbus.spark.connection import Connection

_VENDOR_DOMAINS: Final = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.cloudapi.de",
)
_TIMEOUT_SECONDS: Final = 5.0
_AMQP: Final = "AMQP"


def speaks_amqp_alone(connection: Connection) -> bool:
    """False is no proof of a twinbus: that is for a bulk request to find out."""
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

"""Any AMQP 1.0 client works: here Qpid Proton, with a rule's name and key (SASL PLAIN).

Proton answers a message with `accepted`, which completes it. Without TLS use this on
the loopback interface only: PLAIN sends the key itself.
"""

import os
from urllib.parse import quote

from proton import Message
from proton.utils import BlockingConnection

TIMEOUT_SECONDS = 10


def url_of(connection_string: str) -> str:
    """`amqp://name:key@host:port` of a Service Bus connection string."""
    pairs = (part.partition("=") for part in connection_string.split(";") if part)
    parts = {name: value for name, _, value in pairs}
    host = parts["Endpoint"].removeprefix("sb://").rstrip("/")
    name = quote(parts["SharedAccessKeyName"], safe="")
    key = quote(parts["SharedAccessKey"], safe="")
    return f"amqp://{name}:{key}@{host}"


def main() -> None:
    connection = BlockingConnection(
        url_of(os.environ["TWINBUS_CONNECTION_STRING"]),
        timeout=TIMEOUT_SECONDS,
        allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
    )
    connection.create_sender("offers").send(Message(body="half price"))
    receiver = connection.create_receiver("offers", credit=1)
    print(receiver.receive().body)
    receiver.accept()
    connection.close()


if __name__ == "__main__":
    main()

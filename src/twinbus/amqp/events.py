"""The events that the engine reports to the shell: what the peer did.

They are plain final classes, because some are made once per message. An event that ends
a session or connection covers everything on it: the shell finds the links in
`session.links` and `connection.sessions`.
"""

from typing import TYPE_CHECKING, final

from twinbus.amqp.errors import AmqpError

if TYPE_CHECKING:
    from twinbus.amqp.link import Link
    from twinbus.amqp.session import AmqpSession


class Event:
    """Base of all events."""


@final
class SaslInitReceived(Event):
    """The peer chose a mechanism; the shell answers with `sasl_outcome`."""

    def __init__(
        self, mechanism: str, initial_response: bytes, hostname: str | None
    ) -> None:
        self.mechanism: str = mechanism
        self.initial_response: bytes = initial_response
        self.hostname: str | None = hostname


@final
class ConnectionOpened(Event):
    def __init__(
        self,
        container_id: str,
        hostname: str | None,
        properties: dict[object, object],
    ) -> None:
        self.container_id: str = container_id
        self.hostname: str | None = hostname
        self.properties: dict[object, object] = properties


@final
class ConnectionClosed(Event):
    """The last event of a connection; `error` is the peer's or ours, if there is one.

    The shell writes the rest of `data_to_send` and closes the transport.
    """

    def __init__(self, error: AmqpError | None) -> None:
        self.error: AmqpError | None = error


@final
class SessionBegun(Event):
    def __init__(self, session: "AmqpSession") -> None:
        self.session: AmqpSession = session


@final
class SessionEnded(Event):
    """A session has ended, with all of its links."""

    def __init__(self, session: "AmqpSession", error: AmqpError | None) -> None:
        self.session: AmqpSession = session
        self.error: AmqpError | None = error


@final
class SessionWindowOpened(Event):
    """The peer accepts frames again after its window was used up."""

    def __init__(self, session: "AmqpSession") -> None:
        self.session: AmqpSession = session


@final
class LinkAttached(Event):
    """The peer asks for a link (answer with accept or refuse), or confirms ours."""

    def __init__(self, link: "Link") -> None:
        self.link: Link = link


@final
class LinkFlow(Event):
    """Credit, drain or the delivery count of a link changed."""

    def __init__(self, link: "Link") -> None:
        self.link: Link = link


@final
class LinkDetached(Event):
    def __init__(self, link: "Link", closed: bool, error: AmqpError | None) -> None:
        self.link: Link = link
        self.closed: bool = closed
        self.error: AmqpError | None = error


@final
class MessageReceived(Event):
    """A whole delivery. `oversize`: longer than the link allows, payload dropped."""

    def __init__(
        self,
        link: "Link",
        delivery_id: int,
        delivery_tag: bytes,
        message_format: int,
        settled: bool,
        state: object,
        payload: bytes,
        oversize: bool,
    ) -> None:
        self.link: Link = link
        self.delivery_id: int = delivery_id
        self.delivery_tag: bytes = delivery_tag
        self.message_format: int = message_format
        self.settled: bool = settled
        self.state: object = state
        self.payload: bytes = payload
        self.oversize: bool = oversize


@final
class DispositionReceived(Event):
    """The peer settled, or reported the state of, the deliveries `first` through
    `last`.

    The range may span all 2**32 ids, although few exist: never loop over it. Use
    `session.find_unsettled` and `session.pop_unsettled`.
    """

    def __init__(
        self,
        session: "AmqpSession",
        peer_is_receiver: bool,
        first: int,
        last: int,
        settled: bool,
        state: object,
    ) -> None:
        self.session: AmqpSession = session
        self.peer_is_receiver: bool = peer_is_receiver
        self.first: int = first
        self.last: int = last
        self.settled: bool = settled
        self.state: object = state

"""The private parts of azure-servicebus that we use, each with its reason.

When a release of the SDK drops one, the unit test of this table names it. Then the
function of this package that uses the part is what has to change, and nothing else.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PrivatePart:
    """A name that the SDK does not promise to keep."""

    # The full name of a module or of a class. A part of a class may be set by its
    # constructor only, so that an object is needed to see it.
    owner: str
    name: str
    why: str


_SDK: Final = "azure.servicebus"
_SYNC_CREDENTIALS: Final = f"{_SDK}._base_handler"
_ASYNC_CREDENTIALS: Final = f"{_SDK}.aio._base_handler_async"
_TRANSPORT: Final = f"{_SDK}._transport._pyamqp_transport"
_CLIENTS: Final = (f"{_SDK}.ServiceBusClient", f"{_SDK}.aio.ServiceBusClient")
_ASYNC_LINKS: Final = (
    f"{_SDK}.aio.ServiceBusSender",
    f"{_SDK}.aio.ServiceBusReceiver",
)
_SYNC_LINKS: Final = (f"{_SDK}.ServiceBusSender", f"{_SDK}.ServiceBusReceiver")
_ASYNC_AMQP: Final = f"{_SDK}._pyamqp.aio._client_async.AMQPClientAsync"


def _of(owners: tuple[str, ...], name: str, why: str) -> tuple[PrivatePart, ...]:
    return tuple(PrivatePart(owner, name, why) for owner in owners)


_CLIENT_PARTS: Final = (
    *_of(_CLIENTS, "_credential", "a pair connects with the same credential"),
    *_of(_CLIENTS, "_config", "a pair connects with the same settings"),
    *_of(_CLIENTS, "_connection_verify", "a pair trusts the same authority"),
    *_of(_CLIENTS, "_ssl_context", "a pair trusts the same authority"),
    *_of(_CLIENTS, "_custom_endpoint_address", "a pair connects to the same endpoint"),
    *_of(_CLIENTS, "_entity_name", "the EntityPath limits a client to one entity"),
    *_of(_CLIENTS, "_handlers", "being closed with a client is the only sign of it"),
    *_of(
        (_SYNC_CREDENTIALS, _ASYNC_CREDENTIALS),
        "ServiceBusSharedKeyCredential",
        "the key of a connection string; each face of the SDK has a class of its own",
    ),
    *_of(
        (_SYNC_CREDENTIALS, _ASYNC_CREDENTIALS),
        "ServiceBusSASTokenCredential",
        "the signature of a connection string; likewise",
    ),
)

_MESSAGE_PARTS: Final = (
    PrivatePart(
        f"{_SDK}._common.utils",
        "transform_outbound_messages",
        "it alone knows all forms of messages that `send_messages` takes",
    ),
    PrivatePart(_TRANSPORT, "PyamqpTransport", "makes and sends what is encoded"),
    PrivatePart(
        f"{_TRANSPORT}.PyamqpTransport",
        "to_outgoing_amqp_message",
        "the public constructor of a message takes bodies of data only",
    ),
    PrivatePart(
        f"{_TRANSPORT}.PyamqpTransport",
        "set_batch_envelope_properties",
        "a batch of encoded messages needs the properties of its first one",
    ),
    *_of(
        (f"{_SDK}.ServiceBusMessageBatch",),
        "_messages",
        "a batch that is diverted has to be taken apart",
    ),
    *(
        PrivatePart(
            f"{_SDK}.ServiceBusMessageBatch",
            name,
            "encoded messages go into a batch as they are",
        )
        for name in ("_message", "_size", "_count", "_amqp_transport")
    ),
    PrivatePart(
        f"{_SDK}.amqp.AmqpAnnotatedMessage",
        "_encoding",
        "a copy of a message needs the same encoding",
    ),
    *(
        PrivatePart(
            f"{_SDK}._pyamqp.types",
            name,
            "bytes among properties would be sent as texts",
        )
        for name in ("TYPE", "VALUE", "AMQPTypes")
    ),
)

_ERROR_PARTS: Final = (
    PrivatePart(
        f"{_SDK}.exceptions.ServiceBusError",
        "_condition",
        "the AMQP condition says more than the class of the error",
    ),
    PrivatePart(
        f"{_SDK}._pyamqp.error.TokenAuthFailure",
        "status_code",
        "the SDK raises one error for all answers of `$cbs`",
    ),
)

PAUSING_MODULES: Final = (
    (f"{_SDK}._servicebus_sender", "time"),
    (f"{_SDK}._servicebus_receiver", "time"),
    (f"{_SDK}._pyamqp.client", "time"),
    (f"{_SDK}.aio._servicebus_sender_async", "asyncio"),
    (f"{_SDK}.aio._servicebus_receiver_async", "asyncio"),
    (f"{_SDK}._pyamqp.aio._client_async", "asyncio"),
)
"""Modules that sleep while a link opens or closes, and the module they do it by."""

_PAUSE_PARTS: Final = tuple(
    PrivatePart(module, name, "tests need not wait for the pauses of the SDK")
    for module, name in PAUSING_MODULES
)

_LINK_PARTS: Final = (
    *_of(_ASYNC_LINKS, "_open", "`async with` opens without a time-out"),
    *_of(_ASYNC_LINKS, "_do_retryable_operation", "opens with a time-out"),
    *_of(_ASYNC_LINKS, "_create_handler", "a link that fails to open leaks its socket"),
    *_of(_ASYNC_LINKS, "_handler", "the socket of a link that does not close"),
    PrivatePart(
        f"{_SDK}.aio.ServiceBusSender",
        "_max_batch_size_on_link",
        "how large a batch for an entity may be, without making one",
    ),
    *_of(
        (*_ASYNC_LINKS, *_SYNC_LINKS),
        "_mgmt_request_response_with_retry",
        "requests that the SDK has no method for, or only one message at a time",
    ),
    PrivatePart(f"{_SDK}._common.mgmt_handlers", "default", "raises their refusals"),
    PrivatePart(_ASYNC_AMQP, "_connection", "the socket of a link"),
    PrivatePart(_ASYNC_AMQP, "_keep_alive_thread", "close waits up to a second for it"),
    PrivatePart(
        f"{_SDK}._pyamqp.aio._connection_async.Connection",
        "_transport",
        "the socket of a connection whose peer does not answer",
    ),
)

_BLOCKING_LINK_PARTS: Final = (
    PrivatePart(
        f"{_SDK}.ServiceBusClient",
        "_create_session_browser",
        "a link for requests alone: any other takes messages",
    ),
    *_of(_SYNC_LINKS, "_handler", "the connection of a link"),
    PrivatePart(
        f"{_SDK}._pyamqp.client.AMQPClient",
        "_keep_alive_thread",
        "close waits up to a second for it",
    ),
    *(
        PrivatePart(
            f"{_TRANSPORT}.PyamqpTransport", name, "the types that requests need"
        )
        for name in ("AMQP_ARRAY_VALUE", "AMQP_LONG_VALUE", "AMQP_UINT_VALUE")
    ),
)

PRIVATE_PARTS: Final = (
    *_CLIENT_PARTS,
    *_MESSAGE_PARTS,
    *_ERROR_PARTS,
    *_LINK_PARTS,
    *_PAUSE_PARTS,
    *_BLOCKING_LINK_PARTS,
)

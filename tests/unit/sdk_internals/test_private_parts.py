"""The private parts of the SDK exist, are all listed, and are used in one place."""

import ast
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import azure.servicebus
import azure.servicebus.aio
import pytest
from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus._pyamqp.aio._client_async import AMQPClientAsync
from azure.servicebus._pyamqp.aio._connection_async import Connection
from azure.servicebus._pyamqp.client import AMQPClient
from azure.servicebus._pyamqp.error import TokenAuthFailure
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import ServiceBusError

import twinbus.sdk_internals
from twinbus.sdk_internals.private_parts import PRIVATE_PARTS, PrivatePart

KEY = "Endpoint=sb://contoso.net;SharedAccessKeyName=name;SharedAccessKey=c2VjcmV0"

PACKAGE = Path(twinbus.sdk_internals.__file__).parent
SOURCES = sorted(PACKAGE.glob("*.py"))
OTHERS = sorted(set(PACKAGE.parent.rglob("*.py")) - set(SOURCES))

OWN_MARK = "_twinbus_client"
"""An attribute that we put on links; the SDK knows nothing of it."""


def client(package: Any = azure.servicebus) -> Any:
    """A client that has not connected."""
    return package.ServiceBusClient.from_connection_string(KEY)


# How to make an object of each class whose parts are set by its constructor.
OBJECTS: dict[str, Callable[[], object]] = {
    "azure.servicebus.ServiceBusClient": client,
    "azure.servicebus.aio.ServiceBusClient": lambda: client(azure.servicebus.aio),
    "azure.servicebus.ServiceBusSender": lambda: client().get_queue_sender("q"),
    "azure.servicebus.ServiceBusReceiver": lambda: client().get_queue_receiver("q"),
    "azure.servicebus.aio.ServiceBusSender": lambda: client(
        azure.servicebus.aio
    ).get_queue_sender("q"),
    "azure.servicebus.aio.ServiceBusReceiver": lambda: client(
        azure.servicebus.aio
    ).get_queue_receiver("q"),
    "azure.servicebus.ServiceBusMessageBatch": ServiceBusMessageBatch,
    "azure.servicebus.amqp.AmqpAnnotatedMessage": lambda: AmqpAnnotatedMessage(
        data_body=b""
    ),
    "azure.servicebus.exceptions.ServiceBusError": lambda: ServiceBusError("text"),
    "azure.servicebus._pyamqp.error.TokenAuthFailure": lambda: TokenAuthFailure(
        404, b"text"
    ),
    "azure.servicebus._pyamqp.client.AMQPClient": lambda: AMQPClient("contoso.net"),
    "azure.servicebus._pyamqp.aio._client_async.AMQPClientAsync": lambda: (
        AMQPClientAsync("contoso.net")
    ),
    "azure.servicebus._pyamqp.aio._connection_async.Connection": lambda: Connection(
        "amqps://contoso.net"
    ),
}


def owner_of(part: PrivatePart) -> object:
    """The object, class or module that should have the part."""
    make = OBJECTS.get(part.owner)
    if make is not None:
        return make()
    try:
        return importlib.import_module(part.owner)
    except ModuleNotFoundError:
        module, _, name = part.owner.rpartition(".")
        return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    "part", PRIVATE_PARTS, ids=lambda part: f"{part.owner}.{part.name}"
)
async def test_the_installed_sdk_has_it(part: PrivatePart) -> None:
    version = azure.servicebus.__version__
    assert hasattr(owner_of(part), part.name), (
        f"azure-servicebus {version} has no {part.owner}.{part.name} any more. "
        f"We need it because: {part.why}. Find another way in {PACKAGE.name}/."
    )


def test_no_part_is_listed_twice() -> None:
    named = [(part.owner, part.name) for part in PRIVATE_PARTS]
    assert len(named) == len(set(named))


def private_names(path: Path) -> Iterator[str]:
    """Names beginning with an underscore that a file uses of objects not its own, and
    what it imports from private modules of the SDK."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and is_private_module(node.module or ""):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and called_with_private_name(node):
            yield ast.literal_eval(node.args[1])


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_private_module(module: str) -> bool:
    return module.startswith("azure.") and any(map(is_private, module.split(".")))


def called_with_private_name(call: ast.Call) -> bool:
    """`getattr(link, "_handler", None)`."""
    return (
        isinstance(call.func, ast.Name)
        and call.func.id in ("getattr", "setattr", "hasattr")
        and isinstance(call.args[1], ast.Constant)
        and is_private(str(call.args[1].value))
    )


def test_all_that_is_used_is_listed() -> None:
    listed = {part.name for part in PRIVATE_PARTS}
    # A module is listed with what is used of it.
    listed |= {name for part in PRIVATE_PARTS for name in part.owner.split(".")}
    used = {name for source in SOURCES for name in private_names(source)}
    assert used - listed - {OWN_MARK} == set()


def test_all_that_is_listed_is_used() -> None:
    text = "".join(
        source.read_text() for source in SOURCES if source.stem != "private_parts"
    )
    assert [part.name for part in PRIVATE_PARTS if part.name not in text] == []


def test_no_other_package_uses_private_parts_of_the_sdk() -> None:
    offences = {
        str(source): names
        for source in OTHERS
        if "azure.servicebus" in source.read_text()
        and (names := set(private_names(source)))
    }
    assert offences == {}


@pytest.mark.parametrize(
    "code",
    [
        "from azure.servicebus._common import _handler",
        "link._handler",
        "client.link._handler",
        "getattr(link, '_handler', None)",
        "def f():\n    link._handler = None",
    ],
)
def test_no_form_of_use_escapes(code: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    assert list(private_names(module)) == ["_handler"]

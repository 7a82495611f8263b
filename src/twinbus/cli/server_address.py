"""Which server a command talks to, and with which key.

A connection string has both. Without one, the command talks to the server of this
machine: at the port of the settings, with the key in the data folder. To find these
takes imports that a command with a connection string does without.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.cli import exit_codes
from twinbus.cli.connection_strings import connection_string
from twinbus.cli.failure import Failure
from twinbus.client.connection_string import (
    ConnectionString,
    ConnectionStringError,
    parse_connection_string,
)
from twinbus.client.secret_reference import FILE

if TYPE_CHECKING:
    from twinbus.config.config import Config

CONNECTION_STRING_VARIABLE: Final = "TWINBUS_CONNECTION_STRING"


def parsed(text: str) -> ConnectionString:
    """What a connection string says. Raises Failure."""
    try:
        return parse_connection_string(text)
    except ConnectionStringError as error:
        raise Failure(str(error), exit_codes.USAGE) from None


def given_connection_string(
    given: str | None, environment: Mapping[str, str]
) -> str | None:
    """Of the flag or the variable; None if there is neither. Raises Failure."""
    if not given and not environment.get(CONNECTION_STRING_VARIABLE):
        return None
    return connection_string(
        given, "--connection-string", CONNECTION_STRING_VARIABLE, environment
    )


def server_address(
    given: str | None, config: "Config", environment: Mapping[str, str]
) -> ConnectionString:
    """The server that a command talks to. Raises Failure."""
    text = given_connection_string(given, environment)
    if text is not None:
        return with_key(parsed(text))
    from twinbus.cli.root_key import root_key

    return ConnectionString(
        host="localhost",
        port=config.port,
        is_tls=False,
        key_name=ROOT_KEY_NAME,
        key=root_key(config, ", or a connection string with --connection-string"),
    )


def local_reference(config: "Config") -> str:
    """A connection string for the server of this machine, which names the file of its
    key where there is one. Raises Failure."""
    from twinbus.cli.root_key import root_key

    key = root_key(config)
    if not config.key and not config.catalog:
        key = FILE + str((config.data / "root-key").absolute())
    return ConnectionString(
        host="localhost",
        port=config.port,
        is_tls=False,
        key_name=ROOT_KEY_NAME,
        key=key,
    ).reveal()


def with_key(address: ConnectionString) -> ConnectionString:
    """What needs a key gets one: SASL PLAIN knows no signatures. Raises Failure."""
    if address.key:
        return address
    raise Failure(
        "The connection string has a SharedAccessSignature. This command needs "
        "SharedAccessKeyName and SharedAccessKey.",
        exit_codes.USAGE,
    )

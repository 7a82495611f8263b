"""Connection strings: their parts, missing parts, and secrets that are never shown."""

import subprocess
import sys

import pytest

from twinbus import client
from twinbus.client.connection_string import (
    ConnectionString,
    ConnectionStringError,
    parse_connection_string,
)

KEY = "SharedAccessKeyName=root;SharedAccessKey=se=cret/+="
SIGNATURE = "SharedAccessSignature=SharedAccessSignature sr=h&sig=secret%3d&se=1&skn=n"


@pytest.mark.parametrize(
    ("text", "host", "port", "is_tls"),
    [
        (f"Endpoint=sb://bus.example/;{KEY}", "bus.example", 5671, True),
        (f"Endpoint=sb://Bus.Example/;{KEY}", "bus.example", 5671, True),
        (f"Endpoint=sb://bus.example:99;{KEY}", "bus.example", 99, True),
        (
            f"Endpoint=sb://localhost;{KEY};UseDevelopmentEmulator=true;",
            *("localhost", 5672, False),
        ),
        (
            f"Endpoint=sb://localhost:1234;{KEY};UseDevelopmentEmulator=true",
            *("localhost", 1234, False),
        ),
        (
            f"Endpoint=sb://localhost;{KEY};UseDevelopmentEmulator=false",
            *("localhost", 5671, True),
        ),
        (
            f" endpoint=sb://[::1]:7/ ; {KEY} ; usedevelopmentemulator=TRUE \n",
            *("::1", 7, False),
        ),
        (f"Endpoint=sb://h;;{KEY};TransportType=Amqp;;", "h", 5671, True),
    ],
)
def test_a_connection_string_says_it_all(
    text: str, host: str, port: int, is_tls: bool
) -> None:
    assert parse_connection_string(text) == ConnectionString(
        host=host, port=port, is_tls=is_tls, key_name="root", key="se=cret/+="
    )


def test_a_signature_stands_for_a_key() -> None:
    found = parse_connection_string(f"Endpoint=sb://h;{SIGNATURE}")
    assert found.signature == SIGNATURE.removeprefix("SharedAccessSignature=")
    assert (found.key_name, found.key) == ("", "")


@pytest.mark.parametrize("path", ["orders", "/orders/", " orders "])
def test_the_key_may_be_for_one_entity(path: str) -> None:
    text = f"Endpoint=sb://h;{KEY};EntityPath={path}"
    assert parse_connection_string(text).entity_path == "orders"
    assert parse_connection_string(f"Endpoint=sb://h;{KEY}").entity_path == ""


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", "Endpoint is missing"),
        ("secret", "Endpoint is missing"),
        (KEY, "Endpoint is missing"),
        (f"Endpoint=;{KEY}", "Endpoint is missing"),
        (f"Endpoint=sb://;{KEY}", "no host"),
        (f"Endpoint=secret;{KEY}", "no host"),
        (f"Endpoint=sb://localhost:port;{KEY}", "no valid port"),
        (f"Endpoint=sb://localhost:70000;{KEY}", "no valid port"),
        (f"Endpoint=sb://[;{KEY}", "no host"),
        ("Endpoint=sb://site-a", "SharedAccessKeyName is missing"),
        (
            "Endpoint=sb://site-a;SharedAccessKey=secret",
            "SharedAccessKeyName is missing",
        ),
        (
            "Endpoint=sb://site-a;SharedAccessKeyName=secret",
            "SharedAccessKey is missing",
        ),
        (f"Endpoint=sb://h;{KEY.partition(';')[0]};SharedAccessKey=", "is missing"),
    ],
)
def test_an_incomplete_one_is_refused_and_not_repeated(text: str, missing: str) -> None:
    with pytest.raises(ConnectionStringError, match="not complete") as refused:
        parse_connection_string(text)
    told = str(refused.value)
    assert missing in told
    assert "secret" not in told
    assert "se=cret" not in told
    # The error of urllib would have the text.
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize("proof", [KEY, SIGNATURE])
def test_secrets_are_not_shown(proof: str) -> None:
    shown = repr(parse_connection_string(f"Endpoint=sb://bus.example;{proof}"))
    assert "bus.example" in shown
    assert "secret" not in shown
    assert "se=cret" not in shown


@pytest.mark.parametrize(("host", "address"), [("h", "h:5680"), ("::1", "[::1]:5680")])
@pytest.mark.parametrize("is_tls", [True, False])
@pytest.mark.parametrize("entity", ["", "orders"])
def test_what_is_written_is_read_again(
    host: str, address: str, is_tls: bool, entity: str
) -> None:
    written = ConnectionString(
        host=host,
        port=5680,
        is_tls=is_tls,
        key_name="n",
        key="k==",
        entity_path=entity,
    )
    assert written.address == address
    assert parse_connection_string(written.reveal()) == written


def test_a_signature_is_written_as_it_is() -> None:
    text = f"Endpoint=sb://h:5671;{SIGNATURE};"
    assert parse_connection_string(text).reveal() == text


def test_who_reads_one_imports_no_amqp_client() -> None:
    """Each worker of Spark reads one when it starts."""
    code = "import sys, twinbus.client.connection_string; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "twinbus.client.connection_string" in imported
    assert not {"asyncio", "twinbus.client.connection"} & set(imported)


def test_names_of_the_client_are_there_when_they_are_used() -> None:
    assert {getattr(client, name).__name__ for name in client.__all__} == {
        *client.__all__
    }
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = client.nowhere

"""The address of a namespace, from a connection string."""

import ssl

import pytest

from twinbus.client.address import parse_address
from twinbus.client.credentials import FixedToken, SharedKey

KEY = "SharedAccessKeyName=root;SharedAccessKey=se=cret="


def test_a_namespace_is_reached_over_tls() -> None:
    address = parse_address(f"Endpoint=sb://Site-A.example/;{KEY}")
    assert (address.text, address.name) == ("site-a.example:5671", "site-a.example")
    assert address.tls is not None


def test_whom_to_trust_can_be_given() -> None:
    given = ssl.create_default_context()
    assert parse_address(f"Endpoint=sb://h;{KEY}", tls=given).tls is given


def test_an_emulator_is_reached_in_plain() -> None:
    text = f"Endpoint=sb://localhost:1234;{KEY};UseDevelopmentEmulator=true;"
    address = parse_address(text, tls=ssl.create_default_context())
    assert (address.text, address.tls) == ("localhost:1234", None)


def test_tokens_are_made_from_the_key_for_what_it_is_for() -> None:
    of_all = parse_address(f"Endpoint=sb://h;{KEY}").tokens
    of_one = parse_address(f"Endpoint=sb://h;{KEY};EntityPath=orders").tokens
    assert isinstance(of_all, SharedKey)
    assert (of_all.scope, of_one.scope) == ("", "orders")


def test_a_signature_is_used_as_it_is() -> None:
    tokens = parse_address("Endpoint=sb://h;SharedAccessSignature=signed").tokens
    assert isinstance(tokens, FixedToken)
    assert tokens.token().text == "signed"


def test_what_is_not_complete_is_refused() -> None:
    with pytest.raises(ValueError, match="not complete"):
        parse_address("Endpoint=sb://site-a")


def test_keys_are_not_shown() -> None:
    assert "cret" not in repr(parse_address(f"Endpoint=sb://site-a;{KEY}"))

"""Connection strings of namespaces, for those who speak AMQP themselves."""

import pytest

from twinbus.pairing.own.address import parse_address

KEY = "SharedAccessKeyName=root;SharedAccessKey=se=cret="


def test_a_namespace_is_reached_over_tls() -> None:
    address = parse_address(f"Endpoint=sb://Site-A.example/;{KEY}")
    assert (address.host, address.port) == ("site-a.example", 5671)
    assert address.tls is not None
    assert address.name == "site-a.example"


def test_an_emulator_is_reached_in_plain() -> None:
    text = f"Endpoint=sb://localhost:1234;{KEY};UseDevelopmentEmulator=true;"
    address = parse_address(text)
    assert (address.text, address.tls) == ("localhost:1234", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Endpoint=sb://site-a",
        f"Endpoint=sb://;{KEY}",
        f"Endpoint=sb://h:port;{KEY}",
        "Endpoint=sb://site-a;SharedAccessKey=secret",
    ],
)
def test_what_is_not_complete_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="not complete") as error:
        parse_address(text)
    assert "cret" not in str(error.value)


def test_keys_are_not_shown() -> None:
    assert "cret" not in repr(parse_address(f"Endpoint=sb://site-a;{KEY}"))

"""The name of a primary in paths, and when it must be given."""

import pytest

from twinbus.pairing.primary_name import primary_name


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("contoso.servicebus.windows.net", "contoso"),
        ("Contoso.ServiceBus.Windows.Net", "contoso"),
        ("bus-west:5672", "bus-west"),
        ("bus.example.org:5672", "bus"),
    ],
)
def test_the_first_label_of_the_host_names_the_primary(host: str, name: str) -> None:
    assert primary_name(host, None) == name


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:5672", "LOCALHOST", "localhost.localdomain"),
        *("127.0.0.1", "127.0.0.1:5672", "[::1]:5672", "::1", "[fe80::1]", ""),
    ],
)
def test_a_host_that_says_nothing_needs_the_option(host: str) -> None:
    with pytest.raises(ValueError, match="primary_name"):
        primary_name(host, None)
    assert primary_name(host, "west") == "west"

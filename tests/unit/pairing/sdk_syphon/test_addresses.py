"""The addresses that clients of the SDK connect to, for our own AMQP client."""

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusClient, TransportType

from twinbus.auth.sas import parse
from twinbus.client.credentials import FixedToken, SharedKey
from twinbus.clock import SystemClock
from twinbus.pairing.sdk_syphon.addresses import address_of

CLOCK = SystemClock()
KEY = "SharedAccessKeyName=root;SharedAccessKey=secret"


def test_a_connection_string_has_a_key() -> None:
    text = f"Endpoint=sb://localhost:1234;{KEY};UseDevelopmentEmulator=true"
    address = address_of(ServiceBusClient.from_connection_string(text), CLOCK)
    assert address is not None
    assert (address.text, address.tls) == ("localhost:1234", None)
    token = address.tokens.token()
    assert parse(token.text).is_signed_with(["secret"])


def test_a_namespace_is_reached_over_tls() -> None:
    text = f"Endpoint=sb://site-a.example;{KEY}"
    address = address_of(ServiceBusClient.from_connection_string(text), CLOCK)
    assert address is not None
    assert (address.text, address.name) == ("site-a.example:5671", "site-a.example")
    assert address.tls is not None


@pytest.mark.parametrize(
    ("credential", "kind"),
    [
        (AzureNamedKeyCredential("root", "secret"), SharedKey),
        (AzureSasCredential("SharedAccessSignature sr=x"), FixedToken),
    ],
)
def test_credentials_of_the_vendor(credential: object, kind: type) -> None:
    address = address_of(ServiceBusClient("site-a.example", credential), CLOCK)
    assert address is not None
    assert isinstance(address.tokens, kind)


def test_what_only_the_sdk_can_do_is_left_to_it() -> None:
    web = ServiceBusClient.from_connection_string(
        f"Endpoint=sb://site-a.example;{KEY}",
        transport_type=TransportType.AmqpOverWebsocket,
    )
    assert address_of(web, CLOCK) is None
    one = ServiceBusClient.from_connection_string(
        f"Endpoint=sb://site-a.example;{KEY};EntityPath=orders"
    )
    assert address_of(one, CLOCK) is None


class TokenCredential:
    """As azure-identity's, whose tokens no twinbus takes."""

    def get_token(self, *scopes: str) -> None:
        raise AssertionError("nobody asked")


def test_other_credentials_are_left_to_the_sdk() -> None:
    client = ServiceBusClient("site-a.example", TokenCredential())
    assert address_of(client, CLOCK) is None

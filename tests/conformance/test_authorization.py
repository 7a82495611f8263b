"""SB-Q-10xx: authorization: shared keys, SAS tokens, the claims of a rule."""

import base64
import hashlib
import hmac
import time
from datetime import timedelta
from urllib.parse import quote_plus, urlencode

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from .sdk import receive_one, settings_of, text_of, texts_of

REFUSED = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)


def _client_for(sdk, *claims):
    return sdk.client(sdk.bus.connection_string_for(*claims))


def _with_settings(connection_string, **changes):
    """The connection string with settings replaced, or left out where None."""
    settings = {**settings_of(connection_string), **changes}
    return ";".join(f"{key}={value}" for key, value in settings.items() if value)


def _token(bus, path, *, lifetime_seconds=600, key=None, key_name=None):
    """A SAS token made here, for a path of the bus."""
    endpoint = settings_of(bus.connection_string)["Endpoint"].rstrip("/")
    resource = f"{endpoint}/{path}"
    expiry = str(int(time.time() + lifetime_seconds))
    text = f"{quote_plus(resource)}\n{expiry}".encode()
    digest = hmac.new((key or bus.key).encode(), text, hashlib.sha256).digest()
    fields = {
        "sr": resource,
        "sig": base64.b64encode(digest),
        "se": expiry,
        "skn": key_name or bus.key_name,
    }
    return "SharedAccessSignature " + urlencode(fields)


def _client_with_token(sdk, token):
    text = _with_settings(
        sdk.bus.connection_string,
        SharedAccessKeyName=None,
        SharedAccessKey=None,
        SharedAccessSignature=token,
    )
    return sdk.client(text)


def test_wrong_key_is_refused(sdk, queue):
    """SB-Q-1001 a wrong key raises `ServiceBusAuthenticationError`."""
    wrong = base64.b64encode(b"not the key of this bus").decode()
    text = _with_settings(sdk.bus.connection_string, SharedAccessKey=wrong)
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender(queue, client=sdk.client(text))


def test_unknown_key_name_is_refused(sdk, queue):
    """SB-Q-1002 the name of a rule that does not exist is refused."""
    text = _with_settings(sdk.bus.connection_string, SharedAccessKeyName="nobody")
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.receiver(queue, client=sdk.client(text))


def test_listen_claim_does_not_allow_sending(sdk, queue):
    """SB-Q-1003 with Listen only, a sender raises `ServiceBusAuthorizationError`."""
    with pytest.raises(ServiceBusAuthorizationError, match="Send"):
        sdk.sender(queue, client=_client_for(sdk, "Listen"))


def test_send_claim_does_not_allow_receiving(sdk, queue):
    """SB-Q-1004 with Send only, a receiver raises `ServiceBusAuthorizationError`."""
    with pytest.raises(ServiceBusAuthorizationError, match="Listen"):
        sdk.receiver(queue, client=_client_for(sdk, "Send"))


def test_send_claim_does_not_allow_reading_dead_letters(sdk, queue):
    """SB-Q-1005 the dead-letter sub-queue needs Listen too."""
    with pytest.raises(ServiceBusAuthorizationError):
        sdk.dead_letter_receiver(queue, client=_client_for(sdk, "Send"))


def test_send_and_listen_claims_allow_both(sdk, queue):
    """SB-Q-1006 a rule with Send and Listen sends and receives."""
    client = _client_for(sdk, "Send", "Listen")
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(sdk.receiver(queue, client=client))) == "x"


def test_send_claim_allows_scheduling_and_cancelling(sdk, bus, queue):
    """SB-Q-1007 schedule and cancel need Send and no more."""
    sender = sdk.sender(queue, client=_client_for(sdk, "Send"))
    due = bus.now() + timedelta(hours=1)
    numbers = sender.schedule_messages(ServiceBusMessage("x"), due)
    sender.cancel_scheduled_messages(list(numbers))
    assert sdk.receiver(queue).peek_messages() == []


def test_listen_claim_allows_all_of_receiving(sdk, queue):
    """SB-Q-1008 Listen: receive, peek, defer, receive deferred, renew, settle."""
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    receiver = sdk.receiver(queue, client=_client_for(sdk, "Listen"))
    assert texts_of(receiver.peek_messages()) == ["x"]
    message = receive_one(receiver)
    receiver.renew_message_lock(message)
    receiver.defer_message(message)
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(deferred)
    assert receiver.peek_messages(sequence_number=1) == []


def test_manage_claim_implies_the_others(sdk, queue):
    """SB-Q-1009 a rule with Manage may send and listen."""
    client = _client_for(sdk, "Manage")
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(sdk.receiver(queue, client=client))) == "x"


def test_sas_credential_for_the_queue_is_accepted(sdk, queue):
    """SB-Q-1010 `AzureSasCredential` with a token for the queue."""
    client = sdk.client_with(AzureSasCredential(_token(sdk.bus, queue)))
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(sdk.receiver(queue, client=client))) == "x"


def test_sas_token_for_the_namespace_is_accepted(sdk, queue):
    """SB-Q-1011 a token in the connection string, for all that is below its path."""
    client = _client_with_token(sdk, _token(sdk.bus, ""))
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(sdk.receiver(queue, client=client))) == "x"


def test_named_key_credential_is_accepted(sdk, queue):
    """SB-Q-1012 `AzureNamedKeyCredential` with the key of the bus."""
    credential = AzureNamedKeyCredential(sdk.bus.key_name, sdk.bus.key)
    client = sdk.client_with(credential)
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert texts_of(sdk.receiver(queue).peek_messages()) == ["x"]


def test_sas_token_of_another_queue_is_refused(sdk, queue, make_queue):
    """SB-Q-1013 a token for one queue opens no other, not even by prefix."""
    other = make_queue()
    for path in (other, queue[:-1], f"{queue}/below"):
        client = _client_with_token(sdk, _token(sdk.bus, path))
        with pytest.raises(REFUSED):
            sdk.sender(queue, client=client)


def test_sas_token_with_a_wrong_signature_is_refused(sdk, queue):
    """SB-Q-1014 a token signed with another key is refused."""
    token = _token(sdk.bus, queue, key="another key")
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender(queue, client=_client_with_token(sdk, token))


def test_expired_sas_token_is_refused(sdk, queue):
    """SB-Q-1015 a token of the past is refused, in either form."""
    token = _token(sdk.bus, queue, lifetime_seconds=-60)
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender(queue, client=_client_with_token(sdk, token))
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender(queue, client=sdk.client_with(AzureSasCredential(token)))


def test_expiry_of_a_token_is_judged_by_the_bus(own):
    """SB-Q-1016 the SDK finds the token still good; the bus's clock says otherwise."""
    own.bus.create_queue("q")
    token = _token(own.bus, "q", lifetime_seconds=60)
    own.bus.advance(120)
    with pytest.raises(ServiceBusAuthenticationError):
        own.sender("q", client=_client_with_token(own, token))

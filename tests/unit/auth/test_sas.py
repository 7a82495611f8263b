"""Tokens as the SDKs write them are parsed and their signatures checked.

Each encoder below does what one SDK does, from its source: they differ in what they
escape and in hex case, and the signature covers these differences.
"""

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import new as hmac
from urllib.parse import quote, quote_plus

import pytest
from azure.servicebus._pyamqp.utils import generate_sas_token

from twinbus.auth import sas
from twinbus.errors import AuthenticationFailed

KEY = "c2VjcmV0IGtleQ=="
EXPIRY = 1_900_000_000
Encoder = Callable[[str, str, str], str]


def sign(encoded_resource: str, key: str) -> str:
    signed = f"{encoded_resource}\n{EXPIRY}".encode()
    return b64encode(hmac(key.encode(), signed, sha256).digest()).decode()


def python_token(resource: str, name: str, key: str) -> str:
    return str(generate_sas_token(resource, name, key, EXPIRY))


def javascript_token(resource: str, name: str, key: str) -> str:
    def encode(text: str) -> str:
        return quote(text, safe="!'()*-._~")

    sr = encode(resource)
    sig = encode(sign(sr, key))
    return f"SharedAccessSignature sr={sr}&sig={sig}&se={EXPIRY}&skn={encode(name)}"


def javascript_admin_token(resource: str, name: str, key: str) -> str:
    sr = quote(resource.lower(), safe="!'()*-._~").lower()
    sig = quote(sign(sr, key), safe="")
    return f"SharedAccessSignature sig={sig}&se={EXPIRY}&skn={quote(name)}&sr={sr}"


def java_token(resource: str, name: str, key: str) -> str:
    sr = quote_plus(resource, safe="*")
    sig = quote_plus(sign(sr, key))
    return f"SharedAccessSignature sr={sr}&sig={sig}&se={EXPIRY}&skn={name}"


def dotnet_token(resource: str, name: str, key: str) -> str:
    sr = quote_plus(resource.lower(), safe="!()*")
    sig = quote_plus(sign(sr, key))
    return (
        f"SharedAccessSignature sr={sr}&sig={sig}&se={EXPIRY}"
        f"&skn={quote_plus(name, safe='!()*')}"
    )


ENCODERS = [
    python_token,
    javascript_token,
    javascript_admin_token,
    java_token,
    dotnet_token,
]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    "resource",
    [
        "sb://localhost:5672/Orders",
        "amqps://host/a b/c*(d)~!",
        "https://h:5300/Orders?api-version=2021-05",
    ],
)
def test_token_of_each_sdk_is_accepted(encode: Encoder, resource: str) -> None:
    token = sas.parse(encode(resource, "RootManageSharedAccessKey", KEY))
    assert token.is_signed_with([KEY])
    assert token.key_names == ("RootManageSharedAccessKey",)
    assert token.expires_at == EXPIRY * 1000


@pytest.mark.parametrize("encode", ENCODERS)
def test_scope_is_the_same_whoever_encoded_it(encode: Encoder) -> None:
    token = sas.parse(encode("sb://host:5671/My Queue/sub", "root", KEY))
    assert token.scope == "my queue/sub"


@pytest.mark.parametrize("encode", ENCODERS)
def test_another_key_is_not_accepted(encode: Encoder) -> None:
    token = sas.parse(encode("sb://host/q", "root", KEY))
    assert not token.is_signed_with(["another key"])
    assert not token.is_signed_with([])


def test_any_of_several_keys_is_accepted() -> None:
    token = sas.parse(python_token("sb://host/q", "root", KEY))
    assert token.is_signed_with(["another key", KEY])


def test_key_name_that_was_encoded_twice_is_offered_both_ways() -> None:
    token = sas.parse(python_token("sb://host/q", "my rule/1", KEY))
    assert "my rule/1" in token.key_names
    assert "my+rule%2F1" in token.key_names


def test_signature_with_a_bare_plus_is_accepted() -> None:
    keys = (f"key {number}" for number in range(1000))
    key = next(key for key in keys if "+" in sign("sb%3A%2F%2Fh%2Fq", key))
    signature = sign("sb%3A%2F%2Fh%2Fq", key)
    token = sas.parse(
        f"SharedAccessSignature sr=sb%3A%2F%2Fh%2Fq&sig={signature}&se={EXPIRY}&skn=k"
    )
    assert token.is_signed_with([key])


@pytest.mark.parametrize(
    ("before", "after"),
    [("se=19", "se=29"), ("%2Fq&", "%2Fr&"), ("sb%3A", "sb%3a")],
)
def test_signature_covers_resource_and_expiry_as_written(
    before: str, after: str
) -> None:
    genuine = java_token("sb://host/q", "root", KEY)
    forged = genuine.replace(before, after)
    assert forged != genuine
    assert not sas.parse(forged).is_signed_with([KEY])


def test_token_made_here_is_accepted_here() -> None:
    made = sas.make(
        resource="sb://host/my queue", key_name="a b", key=KEY, expires_at=1_500_999
    )
    token = sas.parse(made)
    assert token.is_signed_with([KEY])
    assert token.scope == "my queue"
    assert token.key_names == ("a b",)
    assert token.expires_at == 1_500_000


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        ("", "does not begin"),
        ("eyJhbGciOi.jwt.token", "does not begin"),
        ("SharedAccessSignature ", "no field 'sr'"),
        ("SharedAccessSignature sr=a&sig=b&se=1", "no field 'skn'"),
        ("SharedAccessSignature sr=a&sig=&se=1&skn=k", "no field 'sig'"),
        ("SharedAccessSignature sr=a&sig=b&se=1&skn=k&se=2", "'se' twice"),
        ("SharedAccessSignature sr=a&sig=b&se=soon&skn=k", "Unix seconds"),
        ("SharedAccessSignature sr=a&sig=b&se=-1&skn=k", "Unix seconds"),
        ("SharedAccessSignature sr=a&sig=b&se=\u0661&skn=k", "Unix seconds"),
        (f"SharedAccessSignature sr=a&sig=b&se={'9' * 13}&skn=k", "Unix seconds"),
        (f"SharedAccessSignature sr={'a' * 9000}&sig=b&se=1&skn=k", "9042 characters"),
    ],
)
def test_malformed_token_is_refused_with_the_reason(token: str, complaint: str) -> None:
    with pytest.raises(AuthenticationFailed, match=complaint):
        sas.parse(token)


def test_type_of_token_is_told_by_its_content() -> None:
    assert sas.is_sas("SharedAccessSignature sr=...")
    assert not sas.is_sas("eyJhbGciOi.jwt.token")


def test_signature_is_not_in_the_representation() -> None:
    token = sas.parse(java_token("sb://host/q", "root", KEY))
    assert token.signature not in repr(token)

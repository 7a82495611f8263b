"""Shared access signatures: reading, checking and making tokens.

A token is `SharedAccessSignature sr=..&sig=..&se=..&skn=..`, with its fields in any
order. The signed text is `sr` *exactly as in the token*, a newline, and `se`: encoders
differ in hex case and in what they escape, so nothing is encoded again before the
check. The key is the UTF-8 text of the key string; it only looks like base64.

It knows neither the existing keys nor the time.
"""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import new as hmac
from typing import Final
from urllib.parse import quote_plus, unquote, unquote_plus

from twinbus.auth.claims import any_equal
from twinbus.auth.resource import scope_path
from twinbus.errors import AuthenticationFailed

PREFIX: Final = "SharedAccessSignature "

# Far more than signatures, names and addresses need; larger tokens are attacks.
_LIMIT_CHARACTERS: Final = 8 * 1024
# Enough for the year 9999; as milliseconds it fits into 64 bits.
_EXPIRY_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SasToken:
    """A parsed token; its signature is not checked yet."""

    # `sr` and `se` as in the token: the signed text.
    signed_resource: str
    signed_expiry: str
    signature: str = field(repr=False)
    # `skn` as in the token; see `key_names`.
    encoded_key_name: str

    @property
    def scope(self) -> str:
        """The path below which the token is valid."""
        return scope_path(unquote_plus(self.signed_resource))

    @property
    def expires_at(self) -> int:
        return int(self.signed_expiry) * 1000

    @property
    def key_names(self) -> tuple[str, ...]:
        """The possible key names: Python's SDK encodes special characters twice."""
        once = unquote_plus(self.encoded_key_name)
        twice = unquote_plus(once)
        return (once,) if once == twice else (once, twice)

    @property
    def key_name(self) -> str:
        """The most probable one, for logs and counts."""
        return self.key_names[-1]

    def is_signed_with(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys made the signature, compared in constant time."""
        expected = [
            _signature(self.signed_resource, self.signed_expiry, key).encode()
            for key in keys
        ]
        return any_equal(self.signature.encode(), expected)


def is_sas(token: str) -> bool:
    """Whether the text is such a token, whatever type the client gives."""
    return token.startswith(PREFIX)


def parse(token: str) -> SasToken:
    """Parse a token.

    Raises AuthenticationFailed, saying what is wrong with it.
    """
    if not is_sas(token):
        raise AuthenticationFailed(f"The token does not begin with '{PREFIX}'.")
    if len(token) > _LIMIT_CHARACTERS:
        raise AuthenticationFailed(
            f"The token has {len(token)} characters; {_LIMIT_CHARACTERS} are the limit."
        )
    fields = _fields(token.removeprefix(PREFIX))
    expiry = fields["se"]
    if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= _EXPIRY_DIGITS):
        raise AuthenticationFailed(
            f"The token's expiry 'se' is '{expiry[:20]}'; expected Unix seconds."
        )
    return SasToken(
        signed_resource=fields["sr"],
        signed_expiry=expiry,
        # Not `unquote_plus`: a '+' in the signature is base64, never a space.
        signature=unquote(fields["sig"]),
        encoded_key_name=fields["skn"],
    )


def make(*, resource: str, key_name: str, key: str, expires_at: int) -> str:
    """A token for the resource, such as `sb://host/orders`, signed with the key."""
    encoded_resource = quote_plus(resource)
    expiry = str(expires_at // 1000)
    signature = _signature(encoded_resource, expiry, key)
    return (
        f"{PREFIX}sr={encoded_resource}&sig={quote_plus(signature)}"
        f"&se={expiry}&skn={quote_plus(key_name)}"
    )


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split("&"):
        name, _, value = part.partition("=")
        # With two values, one could be signed and the other used.
        if name in fields:
            raise AuthenticationFailed(f"The token has the field '{name[:20]}' twice.")
        fields[name] = value
    for name in ("sr", "sig", "se", "skn"):
        if not fields.get(name):
            raise AuthenticationFailed(f"The token has no field '{name}'.")
    return fields


def _signature(signed_resource: str, signed_expiry: str, key: str) -> str:
    signed = f"{signed_resource}\n{signed_expiry}".encode()
    return b64encode(hmac(key.encode(), signed, sha256).digest()).decode()

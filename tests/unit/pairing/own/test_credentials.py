"""Tokens from a key, a token, or a credential."""

from types import SimpleNamespace

import pytest

from twinbus.auth.sas import parse
from twinbus.pairing.own.credentials import (
    JWT,
    SAS,
    CredentialTokens,
    FixedToken,
    SharedKey,
    Token,
)
from twinbus.testing.clock import ManualClock


async def test_a_key_signs_for_the_whole_namespace() -> None:
    clock = ManualClock(1_700_000_000_000)
    token = await SharedKey("site-a", "root", "secret", clock).token()
    parsed = parse(token.text)
    assert parsed.is_signed_with(["secret"])
    assert (parsed.scope, parsed.key_names) == ("", ("root",))
    assert token.expires_at == parsed.expires_at == clock.now() + 3_600_000


async def test_a_token_is_used_as_it_is() -> None:
    assert await FixedToken("text").token() == Token("text", SAS, None)


@pytest.mark.parametrize("is_asynchronous", [True, False])
async def test_a_credential_is_asked(is_asynchronous: bool) -> None:
    found = SimpleNamespace(token="text", expires_on=12)

    def get_token(scope: str) -> object:
        assert scope == "https://servicebus.azure.net/.default"
        return found

    async def get_token_later(scope: str) -> object:
        return get_token(scope)

    ask = get_token_later if is_asynchronous else get_token
    tokens = CredentialTokens(SimpleNamespace(get_token=ask))
    assert await tokens.token() == Token("text", JWT, 12_000)


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Token("secret", SAS, None))

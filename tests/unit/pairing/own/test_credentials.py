"""Tokens from a key, or as they are."""

from twinbus.auth.sas import parse
from twinbus.pairing.own.credentials import SAS, FixedToken, SharedKey, Token
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


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Token("secret", SAS, None))

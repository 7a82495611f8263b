"""Tokens made from a key, or given as they are."""

import pytest

from twinbus.auth.sas import parse
from twinbus.client.credentials import FixedToken, SharedKey, Token
from twinbus.testing.clock import ManualClock


@pytest.mark.parametrize("scope", ["", "orders"])
def test_a_key_signs_for_its_scope(scope: str) -> None:
    clock = ManualClock(1_700_000_000_000)
    token = SharedKey("site-a", "root", "secret", clock, scope).token()
    parsed = parse(token.text)
    assert parsed.is_signed_with(["secret"])
    assert (parsed.scope, parsed.key_names) == (scope, ("root",))
    assert token.expires_at == parsed.expires_at == clock.now() + 3_600_000


def test_a_token_is_used_as_it_is() -> None:
    assert FixedToken("text").token() == Token("text", None)


def test_the_scope_of_a_token_is_read_from_it() -> None:
    made = SharedKey("site-a", "root", "secret", ManualClock(0), "orders").token()
    assert FixedToken(made.text).scope == "orders"
    assert FixedToken("not a token").scope == ""


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Token("secret", None))

"""Lock tokens: 16 bytes that identify their message and epoch."""

from twinbus.broker.message_lock import (
    token_fragment,
    token_prefix,
    token_sequence,
)


def test_token_says_which_message_it_locks() -> None:
    token = token_prefix(65_535, 7) + (123).to_bytes(6, "big") + bytes(5)
    assert len(token) == 16
    assert (token_fragment(token), token_sequence(token)) == (65_535, 123)


def test_epochs_make_tokens_differ_until_they_wrap_around() -> None:
    assert token_prefix(1, 2) != token_prefix(1, 3)
    assert token_prefix(1, 2) == token_prefix(1, 2 + (1 << 24))

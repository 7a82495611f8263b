"""Lock tokens: 16 bytes that lead back to their message, and to no other epoch."""

from twinbus.broker.message_lock import (
    tag_without_lock,
    token_fragment,
    token_prefix,
    token_sequence,
)
from twinbus.broker.row_id import base_of


def test_token_says_which_message_it_locks() -> None:
    token = token_prefix(65_535, 7) + (123).to_bytes(6, "big") + bytes(5)
    assert len(token) == 16
    assert (token_fragment(token), token_sequence(token)) == (65_535, 123)


def test_epochs_make_tokens_differ_until_they_wrap_around() -> None:
    assert token_prefix(1, 2) != token_prefix(1, 3)
    assert token_prefix(1, 2) == token_prefix(1, 2 + (1 << 24))


def test_tag_without_a_lock_is_of_no_epoch() -> None:
    tag = tag_without_lock(3, base_of(3) + 9, b"0123456789", 5)
    assert tag == token_prefix(3, 0) + (9).to_bytes(6, "big") + b"56789"

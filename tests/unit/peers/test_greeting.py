"""Two brokers prove to each other that they know the key of the cluster."""

from dataclasses import replace

import pytest

from twinbus.peers.greeting import (
    ANSWER_BYTES,
    FIRST,
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    Greeting,
    hello,
)

OURS = Greeting(
    key=b"k" * 32,
    address="127.0.0.1:7000",
    nonce_of_connecting=b"c" * NONCE_BYTES,
    nonce_of_accepting=b"a" * NONCE_BYTES,
)

OTHERS = {
    "another key": replace(OURS, key=b"x" * 32),
    "another address": replace(OURS, address="127.0.0.1:7001"),
    "an earlier nonce of the one that connects": replace(
        OURS, nonce_of_connecting=b"x" * NONCE_BYTES
    ),
    "an earlier nonce of the one that accepts": replace(
        OURS, nonce_of_accepting=b"x" * NONCE_BYTES
    ),
}


def test_hello_begins_as_nothing_else_does() -> None:
    said = hello(OURS.nonce_of_connecting)
    assert len(said) == HELLO_BYTES
    assert said[0] == FIRST
    assert FIRST not in b"AGPDHOTC\x16"


def test_each_side_proves_itself() -> None:
    answer = OURS.answer()
    assert len(answer) == ANSWER_BYTES
    assert answer[:NONCE_BYTES] == OURS.nonce_of_accepting
    assert OURS.is_proof_of_accepting(answer[NONCE_BYTES:])
    assert OURS.is_proof_of_connecting(OURS.proof())
    assert len(OURS.proof()) == PROOF_BYTES


def test_proof_of_one_side_is_not_that_of_the_other() -> None:
    assert not OURS.is_proof_of_connecting(OURS.answer()[NONCE_BYTES:])
    assert not OURS.is_proof_of_accepting(OURS.proof())


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_proof_of_another_greeting_is_none(other: Greeting) -> None:
    assert not OURS.is_proof_of_connecting(other.proof())
    assert not OURS.is_proof_of_accepting(other.answer()[NONCE_BYTES:])

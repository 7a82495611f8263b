"""How brokers of one machine prove to each other that they know the cluster's key.

A broker that ends leaves its port to any program on the machine. So nobody who connects
there may send the key, or a message, before the other side has proved that it is a
broker:

    connects to accepts    FIRST, a nonce
    accepts to connects    a nonce, a proof
    connects to accepts    a proof

A proof is an HMAC, with the key, over the side that makes it, the address of the one
that accepts, and both nonces. With the address in it, no program at the port of a
broker that has ended can have another broker make the proof. AMQP or HTTP follows.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

FIRST: Final = 0x01
"""AMQP, TLS and the verbs of HTTP begin with other bytes."""

NONCE_BYTES: Final = 32
HELLO_BYTES: Final = 1 + NONCE_BYTES
PROOF_BYTES: Final = hashlib.sha256().digest_size
ANSWER_BYTES: Final = NONCE_BYTES + PROOF_BYTES

_ACCEPTS: Final = b"accepts"
_CONNECTS: Final = b"connects"


def hello(nonce: bytes) -> bytes:
    """The first bytes of the one that connects."""
    return bytes((FIRST,)) + nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What both sides know when the nonces are exchanged, and the key."""

    key: bytes
    # Of the broker that accepts, as it has announced it.
    address: str
    nonce_of_connecting: bytes
    nonce_of_accepting: bytes

    def answer(self) -> bytes:
        """Of the one that accepts."""
        return self.nonce_of_accepting + self._proof(_ACCEPTS)

    def proof(self) -> bytes:
        """Of the one that connects."""
        return self._proof(_CONNECTS)

    def is_proof_of_accepting(self, shown: bytes) -> bool:
        return hmac.compare_digest(shown, self._proof(_ACCEPTS))

    def is_proof_of_connecting(self, shown: bytes) -> bool:
        return hmac.compare_digest(shown, self._proof(_CONNECTS))

    def _proof(self, side: bytes) -> bytes:
        nonces = self.nonce_of_connecting + self.nonce_of_accepting
        said = b"\0".join((side, self.address.encode(), nonces))
        return hmac.digest(self.key, said, "sha256")

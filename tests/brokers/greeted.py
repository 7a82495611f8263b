"""A connection that greets a broker as another broker does."""

import socket

from twinbus.peers.greeting import ANSWER_BYTES, NONCE_BYTES, Greeting, hello
from twinbus.peers.peer_address import host_and_port


def greeted(address: str, key: bytes) -> socket.socket:
    """Connected to the broker with this address, and known to it as one. `key` is that
    of the cluster."""
    connected = socket.create_connection(host_and_port(address))
    nonce = bytes(NONCE_BYTES)
    connected.sendall(hello(nonce))
    answer = connected.recv(ANSWER_BYTES, socket.MSG_WAITALL)
    greeting = Greeting(
        key=key,
        address=address,
        nonce_of_connecting=nonce,
        nonce_of_accepting=answer[:NONCE_BYTES],
    )
    assert greeting.is_proof_of_accepting(answer[NONCE_BYTES:])
    connected.sendall(greeting.proof())
    return connected

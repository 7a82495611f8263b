"""The token that a broker shows to another one over HTTP."""

from typing import Final

from twinbus.auth import sas
from twinbus.peers.peer_properties import KEY_NAME

_TOKEN_MS: Final = 3_600_000
"""Long enough for brokers whose clocks differ."""


def cluster_token(address: str, key: bytes, now: int) -> str:
    """`key` is that of the cluster."""
    return sas.make(
        resource=f"http://{address}/",
        key_name=KEY_NAME,
        key=key.hex(),
        expires_at=now + _TOKEN_MS,
    )

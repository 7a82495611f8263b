"""Tokens, as SDKs put them: on a connection that has shown no key so far."""

import time

from bench.attackers import aim
from bench.attackers.aim import Aim
from twinbus.auth import sas
from twinbus.client import ClientConnection


async def put_token(
    connection: ClientConnection, found: Aim, queue: str, seconds: int
) -> None:
    """A token for the queue that ends after so many seconds."""
    resource = f"sb://localhost/{queue}"
    token = sas.make(
        resource=resource,
        key_name=aim.ROOT,
        key=found.keys[aim.ROOT],
        expires_at=int((time.time() + seconds) * 1000),
    )
    await connection.put_token(resource, token)

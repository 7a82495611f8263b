"""The lease over the SDK: the lock of a session, renewed while it is needed."""

import asyncio
from typing import Final

from azure.servicebus.aio import ServiceBusReceiver
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    SessionCannotBeLockedError,
)

from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk_syphon.errors import secondary_errors
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.settings import LEASE_SESSION

_RETRY_SECONDS: Final = 1.0


class SdkLease:
    """`Lease` at a queue of any namespace."""

    def __init__(self, namespace: SdkNamespace, path: str) -> None:
        self._namespace = namespace
        self._path = path
        self._receiver: ServiceBusReceiver | None = None

    async def acquire(self) -> None:
        async with secondary_errors():
            while True:
                receiver = self._namespace.client.get_queue_receiver(
                    self._path, session_id=LEASE_SESSION
                )
                try:
                    await receiver.__aenter__()
                except (OperationTimeoutError, SessionCannotBeLockedError):
                    self._namespace.discard(receiver)
                except BaseException:
                    self._namespace.discard(receiver)
                    raise
                else:
                    self._receiver = receiver
                    return
                await asyncio.sleep(_RETRY_SECONDS)

    async def renew(self) -> None:
        if self._receiver is None:
            raise SecondaryError(f"The lease at {self._path} was lost.")
        async with secondary_errors():
            await self._receiver.session.renew_lock()

    async def release(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._namespace.discard(receiver)

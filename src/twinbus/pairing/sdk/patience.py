"""How long pairing waits, for both sides together (`pairing_timeout`).

A namespace may accept a connection and never answer, and an administration client may
retry for minutes. The error says which side it was, and what was being done.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import OperationTimeoutError

from twinbus.pairing.sdk.explaining import explained


@final
class Patience:
    """What is left of the time of one call."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at = asyncio.get_running_loop().time() + seconds

    @asynccontextmanager
    async def with_side(self, side: str, doing: str) -> AsyncIterator[None]:
        """Raises OperationTimeoutError when the time ends, and errors of the side."""
        try:
            async with asyncio.timeout_at(self._ends_at) as bound:
                yield
        except TimeoutError as error:
            limit = "an attempt_timeout"
            if bound.expired():
                limit = f"the pairing_timeout of {self._seconds:g} seconds"
            raise OperationTimeoutError(
                message=f"The {side} did not answer within {limit} while {doing}."
            ) from error
        except AzureError as error:
            if side not in str(error):
                explained(error, f"The {side}, while {doing}")
            raise

"""Errors of the SDK at the secondary, as errors that the syphon knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from azure.core.exceptions import AzureError

from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import reason_of
from twinbus.pairing.syphon.errors import SecondaryError


@asynccontextmanager
async def secondary_errors() -> AsyncIterator[None]:
    try:
        yield
    except (AzureError, OSError, TimeoutError, EOFError, ValueError) as error:
        raise SecondaryError(reason_of(error), kind_of(error)) from error

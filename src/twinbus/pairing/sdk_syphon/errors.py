"""Errors of the SDK at the secondary, as errors that the syphon knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from azure.core.exceptions import AzureError

from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import reason_of
from twinbus.pairing.syphon.errors import SecondaryError

_REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))


@asynccontextmanager
async def secondary_errors() -> AsyncIterator[None]:
    try:
        yield
    except (AzureError, OSError, TimeoutError, EOFError, ValueError) as error:
        kind = kind_of(error)
        raise SecondaryError(
            reason_of(error),
            is_refused=kind in _REFUSED,
            is_gone=kind is FailureKind.NOT_FOUND,
        ) from error

"""Errors of `twinbus.client` at the secondary, as errors that the syphon knows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from twinbus.client.errors import ClientError
from twinbus.errors import MessagingEntityNotFound, ServiceBusError
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.own.failures import kind_of
from twinbus.pairing.syphon.errors import SecondaryError

_REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))


@asynccontextmanager
async def secondary_errors() -> AsyncIterator[None]:
    """Raises SecondaryError for whatever goes wrong with the secondary."""
    try:
        yield
    except ServiceBusError as error:
        raise SecondaryError(
            error.text,
            is_refused=error.http_status == 401,
            is_gone=isinstance(error, MessagingEntityNotFound),
        ) from error
    except (ClientError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        kind = kind_of(error)
        raise SecondaryError(
            str(error) or "it does not answer",
            is_refused=kind in _REFUSED,
            is_gone=kind is FailureKind.NOT_FOUND,
        ) from error

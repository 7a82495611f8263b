"""Requests that concern fragments in several stores.

No commit is atomic over two stores. So a request checks everything in all of them
before it changes anything, then writes to each, and waits until all are durable. If a
store fails between, the others have committed their part, and the caller is told the
error.

While a request holds a store, nothing else commits there. All requests take the stores
in the same order, that of their UUIDs: two requests that each held a store the other
one needs would wait for ever.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack

from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.owner.store_owner import StoreOwner


def owners_of(parts: Iterable[FragmentHandle]) -> list[StoreOwner]:
    """Each once, in the order in which they are held."""
    owners = {part.owner for part in parts}
    if len(owners) == 1:
        return list(owners)
    return sorted(owners, key=lambda owner: owner.store_uuid)


class Reading:
    """Holds the stores of these fragments: what is read stays true, but for the open
    change sets."""

    def __init__(self, parts: Iterable[FragmentHandle]) -> None:
        self._owners = owners_of(parts)
        self._held = AsyncExitStack()

    async def __aenter__(self) -> None:
        try:
            for owner in self._owners:
                await self._held.enter_async_context(owner.reading)
        except BaseException:
            await self._held.aclose()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._held.aclose()


async def settle_down(parts: Iterable[FragmentHandle]) -> None:
    """Wait until everything requested so far is durable in their stores, so that a
    read finds it. Raises MessagingEntityNotFound."""
    for part in parts:
        await part.settle_down()


async def durable(parts: Iterable[FragmentHandle]) -> None:
    """Wait until what was written to these fragments is durable. Raises the error of
    the first store that could not commit, when all have answered."""
    owners = owners_of(parts)
    if len(owners) == 1:
        await owners[0].durable()
        return
    waiting = [owner.durable() for owner in owners]
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome

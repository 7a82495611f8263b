"""Leases over several brokers: taken at all of them or at none.

All are asked first; the highest of their next epochs becomes the epoch of the lease
everywhere. If a broker refuses or is lost after that, those that have granted a lease
give it back, but for leases that the reader had before: they hold its plan, and it will
ask again.

A lease is renewed at the brokers that answer: while a broker is lost, its fragments
deliver nothing, and with the next owner their leases have their full duration.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from twinbus.errors import ServerBusy, ServiceBusError
from twinbus.operations.bulk.requests import LeaseGrant, LeaseRequest
from twinbus.operations.bulk.shares import BrokerShare
from twinbus.operations.caller import Caller

_Positions = dict[int, LeaseRequest]
"""Requests by the positions of their entities."""


class LeaseSpread:
    """The leases of one request, and the brokers that they are at."""

    def __init__(self, caller: Caller, reader: str) -> None:
        self._caller = caller
        self._reader = reader
        self._wanted: dict[BrokerShare, _Positions] = {}

    def add(
        self,
        at: int,
        request: LeaseRequest,
        shares: Mapping[BrokerShare, Sequence[int] | None],
    ) -> None:
        """The entity at this position has these fragments at these brokers."""
        for share, indexes in shares.items():
            part = replace(request, indexes=indexes)
            self._wanted.setdefault(share, {})[at] = part

    async def lease(self, duration_ms: int) -> list[LeaseGrant]:
        """In the order of the entities. Raises as `leases.lease`."""
        own: set[int] = set()
        if len(self._wanted) > 1:
            own = await self._check()
        grants: dict[int, LeaseGrant] = {}
        try:
            for share, wanted in list(self._wanted.items()):
                await self._lease_at(share, wanted, duration_ms, grants)
        except ServiceBusError:
            await self._give_up(own)
            raise
        return [grants[at] for at in sorted(grants)]

    async def _lease_at(
        self,
        share: BrokerShare,
        wanted: _Positions,
        duration_ms: int,
        grants: dict[int, LeaseGrant],
    ) -> None:
        requests = list(wanted.values())
        try:
            found = await share.lease(self._caller, self._reader, duration_ms, requests)
        except ServerBusy:
            if self._can_do_without(share):
                return
            raise
        for at, grant in zip(wanted, found, strict=True):
            _check_epoch(grants.setdefault(at, grant), grant)

    async def _check(self) -> set[int]:
        """Set the epochs. Returns the entities whose leases the reader has had."""
        epochs: dict[int, int] = {}
        own: set[int] = set()
        for share, wanted in list(self._wanted.items()):
            requests = list(wanted.values())
            try:
                checks = await share.check_leases(self._caller, self._reader, requests)
            except ServerBusy:
                if self._can_do_without(share):
                    continue
                raise
            for at, check in zip(wanted, checks, strict=True):
                epochs[at] = max(epochs.get(at, 0), check.next_epoch)
                if check.is_own:
                    own.add(at)
        for wanted in self._wanted.values():
            for at, request in wanted.items():
                wanted[at] = replace(request, least_epoch=epochs[at])
        return own

    def _can_do_without(self, lost: BrokerShare) -> bool:
        """Leave out a broker that does not answer, if all that it was asked for are
        renewals that others answer, too."""
        wanted = self._wanted[lost]
        others = [some for share, some in self._wanted.items() if share is not lost]
        are_renewals = all(request.epoch is not None for request in wanted.values())
        if not are_renewals or not wanted.keys() <= set(chain.from_iterable(others)):
            return False
        del self._wanted[lost]
        return True

    async def _give_up(self, own: set[int]) -> None:
        """Also at a broker that did not answer: it may have granted them."""
        if len(self._wanted) == 1:
            return
        for share, wanted in self._wanted.items():
            taken = [
                replace(request, epoch=str(request.least_epoch))
                for at, request in wanted.items()
                if request.epoch is None and at not in own
            ]
            if taken:
                # What a lost broker has granted ends by itself.
                with suppress(ServiceBusError):
                    await share.release(self._caller, self._reader, taken)

    async def release(self) -> int:
        """Returns the number of entities whose leases were held. Raises the first error
        when all were asked."""
        released: set[int] = set()
        failed: ServiceBusError | None = None
        for share, held in self._wanted.items():
            requests = list(held.values())
            try:
                found = await share.release(self._caller, self._reader, requests)
            except ServiceBusError as error:
                failed = failed or error
            else:
                were_held = zip(held, found, strict=True)
                released |= {at for at, was_held in were_held if was_held}
        if failed is not None:
            raise failed
        return len(released)


def _check_epoch(first: LeaseGrant, grant: LeaseGrant) -> None:
    """Raises ServerBusy if another request has taken the lease in between."""
    if grant.epoch != first.epoch:
        raise ServerBusy(
            f"The lease of '{grant.path}' was taken at the same moment by another "
            "request. Take it again.",
            entity_path=grant.path,
        )

"""The arrival of outbox entries in the store of their targets.

The entries of one source come in the order of their ids. The commit that appends them
also records how far it has come, so an entry that is brought again is dropped.

An entry that its target refuses has to stay at its source. It must not be recorded
here before the source has it again. So an arrival ends at the first entry that is taken
after a refused one; the next arrival goes on from there.
"""

from collections.abc import Callable
from typing import Final

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.changes import LedgerRange, OutboxEntry
from twinbus.broker.dead_letter import (
    FORWARDING_FAILED,
    SESSION_ID_IS_NULL,
    TRANSFER_FAILED,
)
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_address import FragmentAddress, address_from
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import DIVERTED, FORWARDED, TRANSFERRED
from twinbus.encoding.envelope import decode_envelope
from twinbus.encoding.identity import duplicate_key
from twinbus.errors import (
    STORE_IS_FULL,
    MessagingEntityNotFound,
    QuotaExceeded,
    ServerBusy,
    ServiceBusError,
)
from twinbus.links.duplicate_detection import ask_for_duplicates, finds_duplicates
from twinbus.links.sending import accept_unless_seen, check, check_status
from twinbus.outbox.remote_stores import Receipt, RefusedEntry
from twinbus.owner.awaited_commit import AwaitedCommit
from twinbus.owner.store_owner import StoreOwner

LEDGER: Final = "outbox"
"""The source of ledger ranges that count entries; the generation is the UUID of the
store that they come from. Part of the stored format."""


class Parcel:
    """One entry, and the fragment that it is for."""

    __slots__ = ("address", "entry", "fragment", "message")

    def __init__(self, entry: OutboxEntry, target: StoreOwner) -> None:
        self.entry = entry
        self.message: Message = decode_envelope(entry.raw)
        self.address: FragmentAddress = address_from(entry.target)
        # None: its entity was deleted.
        self.fragment: Fragment | None = target.table.find(
            self.address.generation, self.address.index, MAIN
        )

    @property
    def kind(self) -> bytes:
        return self.entry.origin[:1]


class OutboxArrival(Admission):
    """Entries of one source that are appended in one store."""

    def __init__(
        self,
        source_uuid: bytes,
        target: StoreOwner,
        entries: list[OutboxEntry],
        actor: int,
        source: Home | None = None,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        """`source`: None if another broker serves it. `on_failed` is called at once if
        nothing of it happened."""
        super().__init__()
        self._source_uuid = source_uuid
        self._source = source
        self._target = target
        self._actor = actor
        self._parcels = [Parcel(entry, target) for entry in entries]
        # Entries that the target has, now or since an earlier arrival.
        self.taken: list[Parcel] = []
        # Entries that directly follow them.
        self.refused: list[RefusedEntry] = []
        # Targets that have more than they may: what is sent to them is not refused.
        self._full: set[str] = set()
        # What is left of it for the next entry.
        self._room_bytes = 0
        self.outcome = ArrivalOutcome(on_failed)
        for parcel in self._parcels:
            self._ask(parcel)

    def _ask(self, parcel: Parcel) -> None:
        self.pending_bytes += len(parcel.entry.raw)
        self.ask_restored(self._record(parcel))
        fragment = parcel.fragment
        if fragment is None:
            return
        if parcel.kind != FORWARDED:
            ask_for_duplicates(fragment, [parcel.message], self)
        elif finds_duplicates(fragment):
            unique_id = duplicate_key(parcel.message)
            if unique_id is not None:
                self.ask(fragment, unique_id)

    def _record(self, parcel: Parcel) -> LedgerRange:
        entry_id, uuid = parcel.entry.entry_id, self._source_uuid
        return LedgerRange(
            source=LEDGER, generation=uuid, first=entry_id, last=entry_id
        )

    def receipt(self) -> Receipt:
        """For the source."""
        taken = [parcel.entry for parcel in self.taken]
        return Receipt(taken=taken, refused=self.refused, full=sorted(self._full))

    # --- in the turn of the target --------------------------------------------

    def apply(self, duplicates: Duplicates, now: int) -> None:
        target = self._target
        if now < target.refuses_until:
            self.outcome.failed([0], ServerBusy(STORE_IS_FULL))
            return
        self._room_bytes = target.room_bytes
        for parcel in self._parcels:
            if not duplicates.was_restored(self._record(parcel)):
                try:
                    self._check(parcel)
                except ServiceBusError as error:
                    self._refuse(parcel, error)
                    continue
                if self.refused or not self._fits(parcel):
                    break
                self._take(parcel, duplicates, now)
                # The same portion may come twice in one turn, if its source has moved
                # from one broker to another.
                uuid, entry_id = self._source_uuid, parcel.entry.entry_id
                duplicates.add_restored(LEDGER, uuid, {entry_id})
            self.taken.append(parcel)
        if self._parcels and not self.taken and not self.refused:
            target.room.ask_again()
            self.outcome.failed([0], ServerBusy(STORE_IS_FULL))
            return
        self._remember()
        self._end_detours()
        self.outcome.note(target, 0)

    def _check(self, parcel: Parcel) -> None:
        """Raises ServiceBusError if the target refuses it. What a sender was told to be
        accepted is never refused."""
        if parcel.kind not in (FORWARDED, TRANSFERRED):
            return
        fragment = parcel.fragment
        if fragment is None or fragment.is_dropped:
            raise MessagingEntityNotFound(
                "The entity was deleted while the message was on its way to it."
            )
        check_status(fragment)
        check(fragment, parcel.message)
        fragment.check_quota(len(parcel.message.raw))

    def _refuse(self, parcel: Parcel, error: ServiceBusError) -> None:
        reason = TRANSFER_FAILED
        if parcel.kind == FORWARDED:
            fragment = parcel.fragment
            lacks_session = (
                fragment is not None
                and fragment.settings.requires_session
                and parcel.message.session_id is None
            )
            reason = SESSION_ID_IS_NULL if lacks_session else FORWARDING_FAILED
        self.refused.append(
            RefusedEntry(entry=parcel.entry, reason=reason, text=error.text)
        )

    def _fits(self, parcel: Parcel) -> bool:
        """The target has room for it, too. A store that is almost full gets as much as
        it has room for: a commit that fails would refuse others with it."""
        self._room_bytes -= len(parcel.entry.raw)
        return self._room_bytes >= 0

    def _take(self, parcel: Parcel, duplicates: Duplicates, now: int) -> None:
        fragment, message = parcel.fragment, parcel.message
        if fragment is None or fragment.is_dropped:
            # It was deleted with the messages that it had, and this is one of them.
            return
        try:
            fragment.check_quota(len(message.raw))
        except QuotaExceeded:
            self._full.add(parcel.entry.target)
        if parcel.kind != FORWARDED:
            accept_unless_seen(fragment, message, self._actor, now, duplicates)
            return
        unique_id = duplicate_key(message) if finds_duplicates(fragment) else None
        changes = fragment.home.changes
        window_ms = fragment.settings.duplicate_window_ms
        if unique_id is None or duplicates.is_new(
            fragment, unique_id, window_ms, now, changes
        ):
            fragment.adopt(message, now, changes)

    def _remember(self) -> None:
        """Record that all entries up to the last one that was taken are here."""
        if self.taken:
            self._target.changes.ledger_ranges.append(
                LedgerRange(
                    source=LEDGER,
                    generation=self._source_uuid,
                    first=0,
                    last=self.taken[-1].entry.entry_id,
                )
            )

    def _end_detours(self) -> None:
        """What is sent to a fragment from now on comes after the diverted messages, if
        all of them are in this change set or an earlier one. A source at another broker
        is asked for that (`detour_watch.py`)."""
        if self._source is None:
            return
        counts: dict[str, int] = {}
        for parcel in self.taken:
            if parcel.kind == DIVERTED:
                counts[parcel.entry.target] = counts.get(parcel.entry.target, 0) + 1
        for target, count in counts.items():
            if self._source.outbox.diverted_count(target) == count:
                address = address_from(target)
                key = (address.generation, address.index)
                if self._target.awaited.get(key) is self._source:
                    del self._target.awaited[key]


class ArrivalOutcome(AwaitedCommit):
    """Waits for the commit of an arrival."""

    def __init__(self, on_failed: Callable[[], None] | None) -> None:
        super().__init__()
        # Called at once: nobody may write to the fragments before.
        self._on_failed = on_failed

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if self._on_failed is not None:
            self._on_failed()
        super().failed(items, error)

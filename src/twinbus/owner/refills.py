"""What receivers wait for and memory does not have is read from the store.

A dispatch is hungry when its receivers can take more than its window holds. Each turn
of the owner makes one read for all hungry ones, and delivers what it brings. One read
is limited, so that a turn stays short: with many hungry dispatches each gets a share,
and those that get nothing come first in the next turn.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import LEAVING, Message
from twinbus.broker.row_id import sequence_of
from twinbus.broker.window import Window
from twinbus.limits import WINDOW_BYTES
from twinbus.store.base import Store, StoreUnreadable, WindowRefill

if TYPE_CHECKING:
    from twinbus.owner.deliveries import Deliveries
    from twinbus.owner.store_owner import StoreOwner

_READ_MESSAGES: Final = 5_000
_READ_BYTES: Final = 4 * WINDOW_BYTES
"""Of one read, for all windows together: what is delivered in some 50 ms."""

_SHARE_MESSAGES: Final = 100
_SHARE_BYTES: Final = WINDOW_BYTES // 16
"""The smallest share of a window: less, and statements cost more than messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refill:
    """A window as it was when its refill was asked for."""

    dispatch: Dispatch
    window: Window
    tail: int
    wanted: WindowRefill

    def still_fits(self, messages: list[Message]) -> bool:
        """Nothing has happened to the window while the store was read."""
        window = self.window
        return (
            self.dispatch.window() is window
            and window.loaded_through == self.wanted.after
            # With fewer: nobody receives any more, and the window is small.
            and window.room() >= len(messages)
        )


class Refills:
    """Reads ahead for the receivers of one store."""

    def __init__(
        self, owner: "StoreOwner", store: Store, deliveries: "Deliveries"
    ) -> None:
        self._owner = owner
        self._store = store
        self._deliveries = deliveries
        # Those whose receivers wait for messages that are on disk, first come first.
        self._hungry: dict[Dispatch, None] = {}

    def want(self, dispatch: Dispatch) -> None:
        self._hungry[dispatch] = None

    def clear(self) -> None:
        """All of memory was given up."""
        self._hungry.clear()

    async def read(self) -> None:
        """Make a read for those that are hungry now. Raises StoreError."""
        if not self._hungry:
            return
        hungry, self._hungry = self._hungry, {}
        lacking: list[Dispatch] = []
        low: list[Dispatch] = []
        for dispatch in hungry:
            if _may_be_served(dispatch):
                (lacking if dispatch.window().lacks_bodies() else low).append(dispatch)
        if lacking:
            await self._bring_bodies(lacking)
        if low:
            await self._fill(low)

    def _leave(self, hungry: list[Dispatch]) -> None:
        """These are left to the next turn, before all others."""
        if hungry:
            self._hungry = dict.fromkeys([*hungry, *self._hungry])
            self._owner.wake()

    # --- the next messages ----------------------------------------------------

    async def _fill(self, dispatches: list[Dispatch]) -> None:
        """Read the next messages into the windows, and deliver."""
        limit = max(_READ_MESSAGES // len(dispatches), _SHARE_MESSAGES)
        limit_bytes = max(_READ_BYTES // len(dispatches), _SHARE_BYTES)
        limit_bytes = min(limit_bytes, WINDOW_BYTES)
        refills = [
            _refill_of(dispatch, limit, limit_bytes)
            for dispatch in dispatches
            if dispatch.window().room() > 0
        ]
        if not refills:
            return
        portions = await self._store.read_refills(
            [refill.wanted for refill in refills], _READ_MESSAGES, _READ_BYTES
        )
        self._leave([refill.dispatch for refill in refills[len(portions) :]])
        filled = [
            refill.dispatch
            for refill, messages in zip(refills, portions, strict=False)
            if self._has_filled(refill, messages)
        ]
        for dispatch in filled:
            window = dispatch.window()
            if dispatch.session is None and window.loaded_through >= window.tail:
                await self._miss_none(dispatch.fragment)
        for dispatch in filled:
            self._deliveries.serve(dispatch)

    def _has_filled(self, refill: _Refill, messages: list[Message]) -> bool:
        """Put into the window what was read for it; False if that is not wanted any
        more."""
        dispatch = refill.dispatch
        if not _may_be_served(dispatch) or not refill.still_fits(messages):
            return False
        through = sequence_of(messages[-1].row_id) if messages else refill.tail
        known = self._owner.without_leaving(messages)
        dispatch.fragment.refill(known, through, dispatch.session)
        return True

    async def _miss_none(self, fragment: Fragment) -> None:
        """All there is has been read: raises StoreUnreadable if there should be more.
        If memory suspects so, the store is asked for its counters and its rows."""
        if fragment.unseen_count() <= 0 or fragment.sessions is not None:
            return
        found = await self._store.count_active(fragment.number)
        for record in await self._store.fragments():
            if record.number == fragment.number and found < record.active_count:
                raise StoreUnreadable(
                    f"'{fragment.settings.path}' (fragment {fragment.number}) has "
                    f"{record.active_count} active messages by its counter, and "
                    f"{found} were found: the store is damaged. Run 'twinbus check'."
                )

    # --- bytes of messages that came back -------------------------------------

    async def _bring_bodies(self, dispatches: list[Dispatch]) -> None:
        """Read again what was left to the store while messages were locked. Raises
        StoreUnreadable if it is not there."""
        left_bytes, windows = _READ_BYTES, []
        absent: dict[int, tuple[Window, Message]] = {}
        for dispatch in dispatches:
            if left_bytes <= 0:
                break
            window = dispatch.window()
            windows.append(window)
            for message in window.absent(min(WINDOW_BYTES, left_bytes)):
                absent[message.row_id] = window, message
                left_bytes -= message.absent_bytes
        self._leave(dispatches[len(windows) :])
        for read in await self._store.read_numbered(list(absent)):
            window, message = absent.pop(read.row_id)
            if message.absent_bytes != 0:
                window.bring_body(message, read.raw)
        _check_found([message for _, message in absent.values()])
        for dispatch, window in zip(dispatches, windows, strict=False):
            if dispatch.window() is window:
                self._deliveries.serve(dispatch)


def _may_be_served(dispatch: Dispatch) -> bool:
    """Somebody may still take from its window."""
    fragment, session = dispatch.fragment, dispatch.session
    if fragment.is_dropped or fragment.lease is not None:
        return False  # under a lease all is left to its reader
    return session is None or not session.is_released


def _refill_of(dispatch: Dispatch, limit: int, limit_bytes: int) -> _Refill:
    window, session = dispatch.window(), dispatch.session
    wanted = WindowRefill(
        fragment_number=dispatch.fragment.number,
        session_id=None if session is None else session.session_id,
        after=window.loaded_through,
        limit=min(window.room(), limit),
        limit_bytes=limit_bytes,
    )
    return _Refill(dispatch=dispatch, window=window, tail=window.tail, wanted=wanted)


def _check_found(missing: list[Message]) -> None:
    """Raises StoreUnreadable for a message whose bytes are still to be delivered."""
    for message in missing:
        if message.place != LEAVING:
            raise StoreUnreadable(
                f"Row {message.row_id} is to be delivered again and was not found: "
                "the store is damaged. Run 'twinbus check'."
            )

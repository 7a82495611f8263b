"""What receivers wait for and memory does not have is read from the store.

A dispatch is hungry when its receivers can take more than its window holds. Each turn
of the owner reads the next messages of all hungry ones, and delivers them.
"""

from typing import TYPE_CHECKING

from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import LEAVING, Message
from twinbus.broker.row_id import sequence_of
from twinbus.broker.window import Window
from twinbus.limits import WINDOW_BYTES
from twinbus.store.base import StoreUnreadable

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner


class Refills:
    """Reads ahead for the receivers of one store."""

    def __init__(self, owner: "StoreOwner") -> None:
        self._owner = owner
        # Those whose receivers wait for messages that are on disk.
        self._hungry: set[Dispatch] = set()

    def want(self, dispatch: Dispatch) -> None:
        self._hungry.add(dispatch)

    def clear(self) -> None:
        """All of memory was given up."""
        self._hungry.clear()

    async def read(self) -> None:
        """Read for all that are hungry now. Raises StoreError."""
        hungry, self._hungry = self._hungry, set()
        for dispatch in hungry:
            await self._refill(dispatch)

    async def _refill(self, dispatch: Dispatch) -> None:
        """Read the next messages into the window, and deliver."""
        fragment, session = dispatch.fragment, dispatch.session
        if fragment.is_dropped or (session is not None and session.is_released):
            return
        if fragment.lease is not None:
            return  # granted since: all is left to the reader
        window = dispatch.window()
        if window.lacks_bodies():
            await self._read_bodies(window)
            if dispatch.window() is window:
                self._owner.serve(dispatch)
            return
        after, limit = window.loaded_through, window.room()
        if limit <= 0:
            return
        tail = window.tail
        messages = await self._read(dispatch, after, limit)
        if dispatch.window() is not window or window.loaded_through != after:
            return
        if session is not None and session.is_released:
            return  # given up while the store was read: nobody takes from it any more
        if window.room() < len(messages):
            return  # nobody receives any more, and the window is small
        if messages:
            tail = sequence_of(messages[-1].row_id)
        fragment.refill(self._owner.without_leaving(messages), tail, session)
        if session is None and window.loaded_through >= window.tail:
            await self._miss_none(fragment)
        self._owner.serve(dispatch)

    async def _miss_none(self, fragment: Fragment) -> None:
        """All there is has been read: raises StoreUnreadable if there should be more.
        What memory suspects is looked up: counters of the last commit, and rows."""
        if fragment.unseen_count() <= 0 or fragment.sessions is not None:
            return
        found = await self._owner.store.count_active(fragment.number)
        for record in await self._owner.store.fragments():
            if record.number == fragment.number and found < record.active_count:
                raise StoreUnreadable(
                    f"'{fragment.settings.path}' (fragment {fragment.number}) has "
                    f"{record.active_count} active messages by its counter, and "
                    f"{found} were found: the store is damaged. Run 'twinbus check'."
                )

    async def _read_bodies(self, window: Window) -> None:
        """Read again what was left to the store while messages were locked. Raises
        StoreUnreadable if it is not there."""
        absent = {item.row_id: item for item in window.absent(WINDOW_BYTES)}
        for read in await self._owner.store.read_numbered(list(absent)):
            message = absent.pop(read.row_id)
            if message.absent_bytes != 0:
                window.bring_body(message, read.raw)
        for message in absent.values():
            if message.place != LEAVING:
                raise StoreUnreadable(
                    f"Row {message.row_id} is to be delivered again and was not "
                    "found: the store is damaged. Run 'twinbus check'."
                )

    async def _read(self, dispatch: Dispatch, after: int, limit: int) -> list[Message]:
        number, session = dispatch.fragment.number, dispatch.session
        if session is None:
            return await self._owner.store.read_active(
                number, after, limit, WINDOW_BYTES
            )
        return await self._owner.store.read_session(
            number, session.session_id, after, limit, WINDOW_BYTES
        )

"""What a store has room for, as its owner heeds it.

A full store must still take what removes messages: that makes room. So senders are
stopped first, before a commit fails. If a commit fails all the same, the store is
spared for a while from everything that only needs room.
"""

import logging
from typing import Final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.home import Home
from twinbus.errors import STORE_IS_FULL
from twinbus.limits import PENDING_BYTES
from twinbus.store.base import Store

_log = logging.getLogger(__name__)

_FULL_MS: Final = 5_000
"""How long a full store is spared from what needs room."""

_SERVE_AGAIN_MS: Final = 1_000
"""How long receivers wait then: what they take out may not fit either."""


class StoreRoom:
    """Of the store of one owner, who is the home of its fragments."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        home.pending_limit_bytes = PENDING_BYTES
        self._store = store
        # It has no room for messages, and is asked again by every tick.
        self.is_full = False
        # Up to which commit it was asked.
        self._asked_batch = -1
        # A commit found no room, not even for a removal: until then nothing expires
        # and no lock ends.
        self.spared_until = 0
        # No commit with messages has succeeded since.
        self._found_none = False
        # The last reason of `refuse_for`.
        self._throttled_for = ""
        # Until then receivers are not served again.
        self.serve_at = 0

    def heed_clock(self, now: int) -> None:
        """The clock may have been set back; that must not prolong the pause."""
        home = self._home
        home.refuses_until = min(home.refuses_until, now + _FULL_MS)
        self.spared_until = min(self.spared_until, now + _FULL_MS)

    def must_ask(self, batch: int) -> bool:
        """The last answer may not be true any more."""
        return self.is_full or self._asked_batch != batch

    async def ask(self, batch: int, now: int) -> None:
        """Stop senders while the store has no room for what they send, before a
        commit fails for it, and with it those of others who settle."""
        home = self._home
        self._asked_batch = batch
        home.room_bytes = await self._store.room()
        # Less than usual while room is scarce.
        home.pending_limit_bytes = min(PENDING_BYTES, home.room_bytes or PENDING_BYTES)
        if home.room_bytes == 0:
            if not self.is_full:
                _log.error(
                    "the store is full: messages are refused until some were received "
                    "or there is room on its disk again"
                )
            self.is_full = True
            self.commit_refused(now)
            home.refusal = STORE_IS_FULL
            home.refuses_until = now + _FULL_MS
        elif self.is_full:
            _log.warning("the store has room again: messages are taken")
            self.is_full = self._found_none = False
            home.refused_since = 0
            home.refuses_until = self.spared_until

    def refuse_for(self, reason: str, until: int) -> None:
        """Refuse messages for another reason than a full store, which goes first."""
        home = self._home
        if not self.is_full and until > home.refuses_until:
            home.refuses_until = until
            home.refusal = self._throttled_for = reason

    def refuse_no_more(self) -> None:
        """The reason of `refuse_for` is gone."""
        if self._throttled_for and self._home.refusal == self._throttled_for:
            self._home.refuses_until = 0
            self._throttled_for = ""

    def commit_found_none(self, now: int) -> None:
        """Messages are refused, so that what makes room gets through."""
        self._found_none = True
        self._home.refusal = STORE_IS_FULL
        self._home.refuses_until = self.spared_until = now + _FULL_MS
        self.serve_at = now + _SERVE_AGAIN_MS

    def commit_refused(self, now: int) -> None:
        """No messages get in, for whatever reason."""
        if self._home.refused_since == 0:
            self._home.refused_since = now

    def commit_done(self, changes: ChangeSet) -> None:
        """Messages get in again. A full store also takes what removes some: that proves
        nothing."""
        if self.is_full or (self._found_none and changes.pending_bytes == 0):
            return
        self._found_none = False
        self._home.refused_since = 0

    def ask_again(self) -> None:
        """What is known of its room may be old: nothing was committed since."""
        self._asked_batch = -1

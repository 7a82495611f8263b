"""Routing: which fragment of an entity gets what was sent.

    with a key          the fragment of that key; an error if it is unavailable
    without a key       any available fragment, one after the other
    with a twinbus id   the fragment of that id, as with a key

What was sent to a fragment earlier may still wait in an outbox, because its store was
away. Then a message with a key must not come before it, and the fragment counts as
unavailable: the message has to take the same way (`links/detour.py`).

Messages without a key stay with one fragment while its change set is open, and go on to
the next with the next commit: a burst is then one commit in one store and not a small
commit in each. A fragment whose store is busy with a commit is passed over if another
one is idle. If all are busy they share what comes: they will commit anyway, and what
waits for one store only would leave the others without work.

The routing of an entity is shared by all who send to it, so that they share commits.
"""

from typing import Final, final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.encoding.layout import IDENTIFIED, IN_TRANSFER, RESTORED
from twinbus.errors import FragmentUnavailable
from twinbus.fragments.destination import Destination
from twinbus.fragments.fragment_source import FragmentSource
from twinbus.fragments.hashing import fragment_index
from twinbus.fragments.partition_key import (
    common_key,
    common_marks,
    id_key_of,
    key_of,
)

_KEPT: Final = 32
"""So many deliveries go to a store that is committing before another one is looked
for."""


@final
class Routing:
    """Chooses fragments for what is sent to one entity."""

    def __init__(self, path: str, fragment_count: int, source: FragmentSource) -> None:
        self.path: str = path
        self.fragment_count: int = fragment_count
        self._source: FragmentSource = source
        # Those that were used, by index.
        self._known: list[Fragment | None] = [None] * fragment_count
        # What those need who send on to them, by index.
        self._destinations: list[Destination | None] = [None] * fragment_count
        # Where messages without a key go, as long as this change set is open.
        self._current: Fragment | None = None
        self._batch: ChangeSet | None = None
        self._next_index: int = 0
        # Deliveries that it got while its store was committing.
        self._kept_count: int = 0

    def route(self, messages: list[Message]) -> Fragment:
        """The fragment for all messages of a delivery. Raises NotAllowed if their keys
        differ, FragmentUnavailable."""
        key = self.key_of(messages)
        return self.any_fragment() if key is None else self.fragment_of(key)

    def key_of(self, messages: list[Message]) -> str | None:
        """What decides about the fragment; None: any may have them."""
        key = self.own_key_of(messages)
        return id_key_of(messages[0]) if key is None else key

    def own_key_of(self, messages: list[Message]) -> str | None:
        """The key that the sender gave to all these messages, if any. Raises
        NotAllowed if they have different ones."""
        return common_key(messages, self._detects_duplicates(), self.path)

    def split(self, messages: list[Message]) -> list[list[Message]]:
        """The messages of a delivery by the fragments that they belong to, those of a
        key in their order. Only messages with twinbus ids are split: they are sent
        again if one part fails, and the other parts are known then. Raises
        NotAllowed if the sender gave them different keys. On their way through a
        transfer queue and back they may have different ones."""
        marks = common_marks(messages)
        if marks & IDENTIFIED == 0 or (
            marks & (RESTORED | IN_TRANSFER) == 0
            and self.own_key_of(messages) is not None
        ):
            return [messages]
        detects_duplicates = self._detects_duplicates()
        by_index: dict[int, list[Message]] = {}
        by_key: dict[str, list[Message]] = {}
        for message in messages:
            key = key_of(message, detects_duplicates)
            if key is not None:
                by_key.setdefault(key, []).append(message)
                continue
            id_key = id_key_of(message)
            assert id_key is not None, "a message without an id"
            by_index.setdefault(self.index_of(id_key), []).append(message)
        return [*by_key.values(), *by_index.values()]

    def _detects_duplicates(self) -> bool:
        for index in range(self.fragment_count):
            fragment = self.find(index)
            if fragment is not None:
                return fragment.settings.duplicate_window_ms != 0
        return self._source.detects_duplicates()

    def fragment_of(self, key: str) -> Fragment:
        """The fragment of a key, to send to. Raises FragmentUnavailable."""
        fragment = self.available(fragment_index(key, self.fragment_count))
        if not fragment.is_reachable():
            raise FragmentUnavailable.numbered(fragment.index, self.path)
        return fragment

    def index_of(self, key: str) -> int:
        """The index of the fragment of a key."""
        return fragment_index(key, self.fragment_count)

    def destination(self, message: Message) -> Destination:
        """The fragment for a message that another entity sends on. Its store may be
        away; then the message waits in an outbox. Raises FragmentUnavailable if the
        store was never opened and is not shared with other brokers, or if there is no
        key and no fragment is available."""
        index = 0
        if self.fragment_count > 1:
            key = self.key_of([message])
            index = self._any_index() if key is None else self.index_of(key)
        return self.destination_at(index)

    def destination_at(self, index: int) -> Destination:
        """Raises FragmentUnavailable if nothing is known of the fragment."""
        known = self._destinations[index]
        if known is None or known.fragment is None:
            fragment = self.find(index)
            if fragment is None and not self._source.may_be_elsewhere(index):
                raise FragmentUnavailable.numbered(index, self.path)
            if known is None or fragment is not None:
                known = Destination(self._source, index, fragment)
                self._destinations[index] = known
        return known

    def destinations(self) -> list[Destination]:
        """All fragments of which something is known."""
        return [
            self.destination_at(index)
            for index in range(self.fragment_count)
            if self.find(index) is not None or self._source.may_be_elsewhere(index)
        ]

    def _any_index(self) -> int:
        """A fragment that is available here, or any that another broker may have."""
        try:
            return self.any_fragment().index
        except FragmentUnavailable:
            self._next_index = (self._next_index + 1) % self.fragment_count
            if not self._source.may_be_elsewhere(self._next_index):
                raise
            return self._next_index

    def known_fragment(self, index: int) -> Fragment:
        """The fragment of that index, also while its store is away. Raises
        FragmentUnavailable if the store was never opened."""
        fragment = self.find(index)
        if fragment is None:
            raise FragmentUnavailable.numbered(index, self.path)
        return fragment

    def available(self, index: int) -> Fragment:
        """The fragment of that index. Raises FragmentUnavailable."""
        fragment = self.find(index)
        if fragment is None or not fragment.home.is_serving:
            raise FragmentUnavailable.numbered(index, self.path)
        return fragment

    def find(self, index: int) -> Fragment | None:
        """The fragment of that index, if its store was opened."""
        fragment = self._known[index]
        if fragment is None:
            fragment = self._known[index] = self._source.find_fragment(index)
        return fragment

    def known(self) -> list[Fragment]:
        """All fragments whose stores were opened."""
        found = [self.find(index) for index in range(self.fragment_count)]
        return [fragment for fragment in found if fragment is not None]

    def any_fragment(
        self,
        refused_by: list[Home] | None = None,
        full: list[Fragment] | None = None,
    ) -> Fragment:
        """The fragment for messages without a key, in a store that has not refused
        them, and none of those that are full. Raises FragmentUnavailable if there is
        none."""
        current = self._current
        if (
            current is not None
            and current.home.changes is self._batch
            and current.home.is_serving
            and (refused_by is None or current.home not in refused_by)
            and (full is None or current not in full)
            and not self._should_look(current)
        ):
            return current
        chosen = self._choose(
            [] if refused_by is None else refused_by, [] if full is None else full
        )
        self._current = chosen
        self._batch = chosen.home.changes
        return chosen

    def _should_look(self, current: Fragment) -> bool:
        """A store that is committing lets messages wait. Another may be idle by now,
        and if all are busy they share what waits. It is not worth a look for each
        message."""
        if not current.home.is_committing:
            return False
        self._kept_count += 1
        if self._kept_count < _KEPT:
            return False
        self._kept_count = 0
        return True

    def _choose(self, refused_by: list[Home], full: list[Fragment]) -> Fragment:
        busy: Fragment | None = None
        for step in range(self.fragment_count):
            index = (self._next_index + step) % self.fragment_count
            fragment = self.find(index)
            if fragment is None or not fragment.home.is_serving:
                continue
            if fragment.home in refused_by or fragment in full:
                continue
            if not fragment.home.is_committing:
                self._next_index = index + 1
                return fragment
            if busy is None:
                busy = fragment
        if busy is None:
            raise FragmentUnavailable.none_left(self.path)
        self._next_index = busy.index + 1
        return busy

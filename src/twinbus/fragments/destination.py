"""A fragment as those see it who send messages on to it from another entity.

Its store may be away, or at another broker, and then only its address is known here.
Messages for it go into an outbox; the owner of the fragment takes or refuses them when
they arrive.
"""

from typing import final

from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import Home
from twinbus.fragments.fragment_source import FragmentSource


@final
class Destination:
    """One fragment of an entity."""

    def __init__(
        self, source: FragmentSource, index: int, fragment: Fragment | None
    ) -> None:
        """`fragment`: None if its store was never opened here."""
        self._source: FragmentSource = source
        self.index: int = index
        self.fragment: Fragment | None = fragment
        self.home: Home = source.home_of(index) if fragment is None else fragment.home
        self._address: FragmentAddress | None = None

    def address(self) -> FragmentAddress:
        """Names it for an outbox."""
        if self._address is None:
            fragment = self.fragment
            if fragment is None:
                uuid, generation = self.home.store_uuid, self._source.generation()
                self._address = FragmentAddress(uuid, generation, self.index)
            else:
                self._address = fragment.address()
        return self._address

    def settings(self) -> FragmentSettings:
        if self.fragment is None:
            return self._source.main_settings()
        return self.fragment.settings

    def check_quota(self, size_bytes: int) -> None:
        """Raises QuotaExceeded, MessagingEntityNotFound. How full a fragment at another
        broker is, that one checks when the message arrives."""
        if self.fragment is None or (self.home.is_shared and not self.home.is_serving):
            return
        self.fragment.check_quota(size_bytes)

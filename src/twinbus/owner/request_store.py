"""The store as requests see it, where a process serves several of them.

A request may read from a store that has just gone away. That is no bug, and nothing
the client did wrong: it is told that the server is busy, with the entity it asked for,
and tries again. The owner of the store finds out by itself.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from twinbus.broker.row_id import fragment_number_of
from twinbus.errors import STORE_TROUBLE, ServerBusy
from twinbus.owner.owner_state import OwnerState
from twinbus.store.base import Store, StoreError

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)


class RequestStore:
    """Stands between requests and the store of one owner; has all its operations."""

    def __init__(self, owner: "StoreOwner", store: Store) -> None:
        self._owner = owner
        self._store = store

    @property
    def location(self) -> str:
        return self._store.location

    def __getattr__(self, name: str) -> Any:
        return partial(self._ask, name)

    async def _ask(self, name: str, *given: Any, **named: Any) -> Any:
        """Raises ServerBusy while the store is away."""
        if not self._owner.has_lease() or self._owner.state is not OwnerState.SERVING:
            raise self._away(given)
        try:
            return await getattr(self._store, name)(*given, **named)
        except StoreError as error:
            if not self._owner.has_started:
                raise  # nobody is served yet: the process does not start
            _log.warning("a request could not read the store: %s", error)
            raise self._away(given) from error

    def _away(self, given: tuple[Any, ...]) -> ServerBusy:
        path = self._entity_path(given)
        whose = f"The message store of '{path}'" if path else "The message store"
        return ServerBusy(
            f"{whose} {self._owner.health.reason}. Try again. {STORE_TROUBLE}",
            entity_path=path,
        )

    def _entity_path(self, given: tuple[Any, ...]) -> str:
        """Whatever is asked for, a fragment number or row ids come first."""
        first = given[0] if given else None
        if isinstance(first, list) and first and isinstance(first[0], int):
            first = fragment_number_of(first[0])
        if not isinstance(first, int):
            return ""
        fragment = self._owner.table.by_number(first)
        return "" if fragment is None else fragment.settings.path

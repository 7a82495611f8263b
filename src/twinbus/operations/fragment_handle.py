"""One fragment of an entity, opened for one caller.

Operations get it from an `EntityHandle`, by what names it: a sequence number, a lock
token, a session or an index.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from twinbus.auth.claims import Claim
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.broker.session_lock import held
from twinbus.errors import ArgumentOutOfRange
from twinbus.owner.store_owner import StoreOwner, owner_of

if TYPE_CHECKING:
    from twinbus.operations.entity_handle import EntityHandle


class FragmentHandle:
    """A fragment, its store, and the caller of an operation."""

    def __init__(self, entity: "EntityHandle", fragment: Fragment) -> None:
        self._entity = entity
        self.fragment = fragment

    @property
    def index(self) -> int:
        return self.fragment.index

    @property
    def path(self) -> str:
        return self.fragment.settings.path

    @property
    def owner(self) -> StoreOwner:
        return owner_of(self.fragment)

    def now(self) -> int:
        return self._entity.now()

    def require(self, claim: Claim) -> None:
        """Raises UnauthorizedAccess."""
        self._entity.require(claim)

    @cached_property
    def actor(self) -> int:
        """The caller's number in the operation log of this store."""
        return self._entity.caller.actor_in(self.fragment.home)

    async def settle_down(self) -> None:
        """Wait until everything requested so far is durable, so that a read of the
        store finds it. Raises MessagingEntityNotFound."""
        if not self.owner.is_idle():
            await self.owner.durable()
        self.fragment.check_exists()

    def held_session(self, session_id: str) -> HeldSession:
        """Raises SessionLockLost, NotAllowed, MessagingEntityNotFound."""
        self._entity.check_has_sessions()
        self.fragment.check_exists()
        return held(self.fragment, session_id, self.now())

    # --- sequence numbers -----------------------------------------------------

    def local(self, number: int, what: str) -> int:
        """The fragment's own number for one that clients see. Raises
        ArgumentOutOfRange."""
        base = self.fragment.visible_base
        if not base <= number <= base + SEQUENCE_MASK:
            raise ArgumentOutOfRange(
                f"'{what}' is {number}, which is not a sequence number of "
                f"{self._shown()}.",
                entity_path=self.path,
            )
        return sequence_of(number)

    def _shown(self) -> str:
        if self._entity.entity.is_partitioned:
            return f"fragment {self.index} of '{self.path}'"
        return f"'{self.path}'"

    def visible(self, sequence: int) -> int:
        """The number that clients see for one of the fragment's own."""
        return self.fragment.visible_base + sequence

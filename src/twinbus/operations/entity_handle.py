"""One entity, or one of its sub-queues, opened for one caller.

All operations take a handle. If the entity is deleted and created again, operations on
the old handle fail with MessagingEntityNotFound.
"""

from functools import cached_property

from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath, parse_entity_path
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.broker.session_lock import held
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.subscription_rules import SubscriptionRules
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    MessagingEntityNotFound,
    NotAllowed,
    SessionLockLost,
)
from twinbus.links.arrivals import Arrivals
from twinbus.operations.caller import Caller
from twinbus.operations.entity_arrivals import entity_arrivals
from twinbus.owner.store_owner import StoreOwner, owner_of


class EntityHandle:
    """The entity, fragment and caller of an operation."""

    def __init__(
        self, namespace: Namespace, entity: Entity, path: EntityPath, caller: Caller
    ) -> None:
        self._namespace = namespace
        self.entity = entity
        self.sub_queue = path.sub_queue
        self.fragment: Fragment = entity.fragment(path.sub_queue)
        self._claim_path = path.text
        self.caller = caller
        entity.used_at = self.now()

    @property
    def path(self) -> str:
        return self.fragment.settings.path

    @property
    def owner(self) -> StoreOwner:
        return owner_of(self.fragment)

    @property
    def rules(self) -> SubscriptionRules:
        """Changes the rules of subscriptions."""
        return self._namespace.rules

    def now(self) -> int:
        return self._namespace.clock.now()

    # --- the caller -----------------------------------------------------------

    def require(self, claim: Claim) -> None:
        """Raises UnauthorizedAccess."""
        self.caller.require(claim, self._claim_path)

    @cached_property
    def actor(self) -> int:
        """The caller's number in the operation log."""
        return self.caller.actor_in(self.fragment.home)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Reads the messages that the caller sends."""
        return entity_arrivals(self._namespace, self.entity, self._may_restore)

    def _may_restore(self, now: int) -> bool:
        return self.caller.holds(Claim.SEND, "")

    # --- checks ---------------------------------------------------------------

    def check_may_receive(self) -> None:
        """Raises EntityDisabled, NotAllowed."""
        self.entity.check_may_receive(self.sub_queue)

    def check_may_send(self) -> None:
        """Raises EntityDisabled, NotAllowed."""
        if self.sub_queue != MAIN:
            raise NotAllowed.sent_to_sub_queue(self.path)
        self.entity.check_may_send()

    async def settle_down(self) -> None:
        """Wait until everything requested so far is durable, so that a read of the
        store finds it. Raises MessagingEntityNotFound."""
        if not self.owner.is_idle():
            await self.owner.durable()
        self.fragment.check_exists()

    # --- sessions -------------------------------------------------------------

    def check_has_sessions(self) -> None:
        """Raises NotAllowed."""
        if not self.fragment.settings.requires_session:
            raise NotAllowed(
                f"'{self.path}' does not require sessions, so it has none.",
                entity_path=self.path,
            )

    def check_session(self, session_id: str | None) -> None:
        """Raises NotAllowed if a session is named and the entity has none."""
        if session_id is not None:
            self.check_has_sessions()

    def held_session(self, session_id: str) -> HeldSession:
        """Raises SessionLockLost, NotAllowed, MessagingEntityNotFound."""
        self.check_has_sessions()
        self.fragment.check_exists()
        return held(self.fragment, session_id, self.now())

    def receiving_session(self, session_id: str | None) -> HeldSession | None:
        """The held session to receive from; None if the entity has no sessions.
        Raises ArgumentError, NotAllowed, SessionLockLost."""
        if session_id is not None:
            return self.held_session(session_id)
        if self.fragment.settings.requires_session:
            raise ArgumentError(
                f"'{self.path}' requires sessions: name the session that you hold.",
                entity_path=self.path,
            )
        return None

    def session_lost(self, session_id: str) -> SessionLockLost:
        return SessionLockLost.named(session_id, entity_path=self.path)

    # --- sequence numbers -----------------------------------------------------

    def local(self, number: int, what: str) -> int:
        """The fragment's own number for one that clients see. Raises
        ArgumentOutOfRange."""
        base = self.fragment.visible_base
        if not base <= number <= base + SEQUENCE_MASK:
            raise ArgumentOutOfRange(
                f"'{what}' is {number}, which is not a sequence number of "
                f"'{self.path}'.",
                entity_path=self.path,
            )
        return sequence_of(number)

    def visible(self, sequence: int) -> int:
        """The number that clients see for one of the fragment's own."""
        return self.fragment.visible_base + sequence


def open_entity(
    namespace: Namespace, path: str | EntityPath, caller: Caller, claim: Claim
) -> EntityHandle:
    """Raises UnauthorizedAccess and MessagingEntityNotFound. The claim is checked
    first, so that others do not learn whether the entity exists. Each operation checks
    the claim that it needs itself."""
    if isinstance(path, str):
        path = parse_entity_path(path.strip("/"))
    caller.require(claim, path.text)
    if path.is_management:
        raise MessagingEntityNotFound(entity_path=path.text)
    return EntityHandle(namespace, namespace.entity(path.entity), path, caller)

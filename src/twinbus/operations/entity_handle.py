"""One entity, or one of its sub-queues, opened for one caller.

All operations take a handle. If the entity is deleted and created again, operations on
the old handle fail with MessagingEntityNotFound.

An operation works on fragments (`FragmentHandle`). A conventional entity has one. Of a
partitioned one, the operation chooses: by what the request names, or all of them. A
fragment whose store is away is refused with FragmentUnavailable.
"""

from collections.abc import Sequence
from functools import cached_property

from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath, parse_entity_path
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.message_lock import token_fragment
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.subscription_rules import SubscriptionRules
from twinbus.errors import (
    ArgumentError,
    FragmentUnavailable,
    MessagingEntityNotFound,
    NotAllowed,
    ServiceBusError,
    SessionLockLost,
)
from twinbus.fragments.hashing import fragment_index
from twinbus.links.arrivals import Arrivals
from twinbus.links.detour import StoreDetour
from twinbus.links.refusal import log_refusal
from twinbus.operations.caller import Caller
from twinbus.operations.entity_arrivals import entity_arrivals
from twinbus.operations.fragment_handle import FragmentHandle


class EntityHandle:
    """The entity and the caller of an operation."""

    def __init__(
        self, namespace: Namespace, entity: Entity, path: EntityPath, caller: Caller
    ) -> None:
        self._namespace = namespace
        self.entity = entity
        self.sub_queue = path.sub_queue
        # Those that were used, by index.
        self._parts: list[FragmentHandle | None] = [None] * entity.fragment_count
        # One of its fragments, for what all have in common.
        self._any = self._any_fragment()
        self._claim_path = path.text
        # Set if the operation is for these fragments only: other brokers, which have
        # the others, do the rest.
        self.only: Sequence[int] | None = None
        # Set if the operation only checks whether it would succeed: other brokers are
        # asked the same, and nothing changes before all have agreed.
        self.is_check: bool = False
        self.caller = caller
        entity.used_at = self.now()

    @property
    def settings(self) -> FragmentSettings:
        return self._any.settings

    @property
    def path(self) -> str:
        return self.settings.path

    @property
    def rules(self) -> SubscriptionRules:
        """Changes the rules of subscriptions."""
        return self._namespace.rules

    def now(self) -> int:
        return self._namespace.clock.now()

    def detour(self) -> StoreDetour | None:
        """Takes messages whose fragment cannot be reached; None with one store."""
        return self._namespace.detour_of(self.entity)

    # --- the caller -----------------------------------------------------------

    def require(self, claim: Claim) -> None:
        """Raises UnauthorizedAccess."""
        self.caller.require(claim, self._claim_path)

    def log_refusal(self, error: ServiceBusError) -> None:
        """Write to the operation log that the caller was refused something."""
        home = self._any.home
        if home.is_serving:
            log_refusal(self._any, self.caller.actor_in(home), error)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Reads the messages that the caller sends."""
        return entity_arrivals(self._namespace, self.entity, self._may_restore)

    def _may_restore(self, now: int) -> bool:
        return self.caller.holds(Claim.SEND, "")

    # --- fragments ------------------------------------------------------------

    def _any_fragment(self) -> Fragment:
        """Raises MessagingEntityNotFound, FragmentUnavailable."""
        entity = self.entity
        if not entity.is_partitioned:
            return entity.fragment(self.sub_queue)
        for index in range(entity.fragment_count):
            fragment = entity.find_fragment(index, self.sub_queue)
            if fragment is not None:
                return fragment
        return entity.fragment(self.sub_queue)

    @property
    def fragment_count(self) -> int:
        return len(self._parts)

    def part(self, index: int) -> FragmentHandle:
        """The fragment of that index. Raises MessagingEntityNotFound; on a partitioned
        entity FragmentUnavailable, if its store is away."""
        part = self.find_part(index)
        if part is None:
            # Raises the reason.
            part = FragmentHandle(self, self.entity.fragment(self.sub_queue, index))
        if len(self._parts) > 1 and not part.fragment.home.is_serving:
            raise FragmentUnavailable.numbered(index, self.path)
        return part

    def find_part(self, index: int) -> FragmentHandle | None:
        """The fragment of that index, whether or not its store is away; None if it was
        never opened."""
        part = self._parts[index]
        if part is None:
            fragment = self.entity.find_fragment(index, self.sub_queue)
            if fragment is not None:
                part = self._parts[index] = FragmentHandle(self, fragment)
        return part

    def parts(self) -> list[FragmentHandle]:
        """All fragments, by index. Raises as `part` does."""
        return [self.part(index) for index in self._indexes()]

    def known_parts(self) -> list[FragmentHandle]:
        """All fragments whose stores were opened, by index. While a store is away, its
        fragments deliver nothing, and go on when it is back."""
        found = [self.find_part(index) for index in self._indexes()]
        return [part for part in found if part is not None]

    def _indexes(self) -> Sequence[int]:
        return range(len(self._parts)) if self.only is None else self.only

    def part_of_number(self, number: int) -> FragmentHandle | None:
        """The fragment of a message, by its sequence number; None if the entity has no
        such number. Raises as `part` does."""
        return self._part_if_any(number >> SEQUENCE_BITS)

    def part_of_token(self, token: bytes) -> FragmentHandle | None:
        """The fragment of a message, by its lock token; None if no fragment can have
        issued it. Raises as `part` does."""
        return self._part_if_any(token_fragment(token))

    def _part_if_any(self, index: int) -> FragmentHandle | None:
        return self.part(index) if 0 <= index < len(self._parts) else None

    def part_of_session(self, session_id: str) -> FragmentHandle:
        """The fragment that has the session. Raises as `part` does."""
        return self.part(self.index_of_session(session_id))

    def index_of_session(self, session_id: str) -> int:
        count = len(self._parts)
        return 0 if count == 1 else fragment_index(session_id, count)

    # --- checks ---------------------------------------------------------------

    def check_may_receive(self) -> None:
        """Raises EntityDisabled, NotAllowed."""
        self.entity.check_may_receive(self.sub_queue)

    def check_may_send(self) -> None:
        """Raises EntityDisabled, NotAllowed."""
        if self.sub_queue != MAIN:
            raise NotAllowed.sent_to_sub_queue(self.path)
        self.entity.check_may_send()

    # --- sessions -------------------------------------------------------------

    def check_has_sessions(self) -> None:
        """Raises NotAllowed."""
        if not self.settings.requires_session:
            raise NotAllowed(
                f"'{self.path}' does not require sessions, so it has none.",
                entity_path=self.path,
            )

    def check_session(self, session_id: str | None) -> None:
        """Raises NotAllowed if a session is named and the entity has none."""
        if session_id is not None:
            self.check_has_sessions()

    def check_names_session(self, session_id: str | None) -> None:
        """Where messages are received from a session, it must be named, and elsewhere
        none. Raises ArgumentError, NotAllowed."""
        self.check_session(session_id)
        if session_id is None and self.settings.requires_session:
            raise ArgumentError(
                f"'{self.path}' requires sessions: name the session that you hold.",
                entity_path=self.path,
            )

    def lock_lost(self) -> ServiceBusError:
        """The error for a lock token that no fragment has issued."""
        return self._any.lock_lost()

    def session_lost(self, session_id: str) -> SessionLockLost:
        return SessionLockLost.named(session_id, entity_path=self.path)


def open_entity(
    namespace: Namespace, path: str | EntityPath, caller: Caller, claim: Claim
) -> EntityHandle:
    """Raises UnauthorizedAccess and MessagingEntityNotFound. The claim is checked
    first, so that others do not learn whether the entity exists. Each operation checks
    the claim that it needs itself."""
    entity, parsed = find_entity(namespace, path, caller, claim)
    return EntityHandle(namespace, entity, parsed, caller)


def find_entity(
    namespace: Namespace, path: str | EntityPath, caller: Caller, claim: Claim
) -> tuple[Entity, EntityPath]:
    """The entity and the parsed path. Raises as `open_entity`."""
    if isinstance(path, str):
        path = parse_entity_path(path.strip("/"))
    caller.require(claim, path.text)
    if path.is_management:
        raise MessagingEntityNotFound(entity_path=path.text)
    return namespace.entity(path.entity), path

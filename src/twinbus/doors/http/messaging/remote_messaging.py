"""Fragments that other brokers have, as requests for messages reach them."""

from typing import Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.amqp.types import AmqpArray, Symbol
from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.message_lock import token_fragment
from twinbus.doors.http.bulk.http_caller import HttpCaller
from twinbus.doors.http.messaging.messaging_path import uuid_of
from twinbus.doors.http.messaging.spread_receiver import SpreadReceiver
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import FragmentUnavailable, InternalError, from_condition
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.receiving import RequestReceiver
from twinbus.operations.routed_sending import RoutedSender
from twinbus.peers.peer_properties import (
    FRAGMENTS,
    KEEP,
    Properties,
    peer_properties,
)
from twinbus.peers.peers import Peers
from twinbus.peers.remote_sends import RemoteSends
from twinbus.peers.reserved_messages import ReservedMessages

_UUID: Final = 0x98

COMPLETED: Final = "completed"
ABANDONED: Final = "abandoned"


class RemoteMessaging:
    """Of one cluster."""

    def __init__(self, peers: Peers, namespace: Namespace) -> None:
        self._peers = peers
        self._namespace = namespace

    def concern(self, entity: Entity) -> bool:
        """Not all of its fragments are here."""
        return self._peers.is_cluster and not all(
            home.is_serving for home in entity.homes()
        )

    # --- sending --------------------------------------------------------------

    def sender(
        self, entity: Entity, path: EntityPath, caller: HttpCaller
    ) -> RoutedSender:
        def properties(index: int, keeps: bool) -> Properties:
            common = _properties(caller, [index], may_restore=True)
            return {**common, Symbol(FRAGMENTS): [index], Symbol(KEEP): keeps}

        ways = RemoteSends(self._peers, entity.path, entity.homes(), properties)
        return RoutedSender(self._namespace, entity, path, caller, ways)

    # --- receiving ------------------------------------------------------------

    def receiver(
        self, entity: Entity, path: EntityPath, caller: HttpCaller, peek_lock: bool
    ) -> SpreadReceiver:
        """Raises FragmentUnavailable if no fragment can be reached."""
        local = self._local(entity, path, caller, peek_lock)
        elsewhere = self._elsewhere(entity)
        if local is None and not elsewhere:
            raise FragmentUnavailable.none_left(entity.path)
        spread = SpreadReceiver(self._peers, entity, local, peek_lock)
        for address, indexes in elsewhere.items():
            properties = _properties(caller, indexes, reserves=True)
            channel = self._peers.connection(address)
            spread.remotes.append(
                ReservedMessages(channel, path.text, properties, spread.on_news)
            )
        return spread

    def _local(
        self, entity: Entity, path: EntityPath, caller: HttpCaller, peek_lock: bool
    ) -> RequestReceiver | None:
        if not any(home.is_serving for home in entity.homes()):
            return None
        handle = EntityHandle(self._namespace, entity, path, caller)
        parts = [part for part in handle.known_parts() if part.fragment.home.is_serving]
        return RequestReceiver(entity, parts, peek_lock) if parts else None

    def _elsewhere(self, entity: Entity) -> dict[str, list[int]]:
        """The indexes of fragments at other brokers, by their addresses."""
        found: dict[str, list[int]] = {}
        for index, home in enumerate(entity.homes()):
            address = self._peers.address_of(home)
            if address is not None:
                found.setdefault(address, []).append(index)
        return found

    # --- locks ----------------------------------------------------------------

    def has_lock(self, entity: Entity, token: bytes) -> str | None:
        """The broker that has the fragment of a lock token, if it is another one.
        Raises FragmentUnavailable if nobody has it now."""
        index = token_fragment(token)
        if not self.concern(entity) or index >= entity.fragment_count:
            return None
        home = entity.home(index)
        if home.is_serving:
            return None
        address = self._peers.address_of(home)
        if address is None:
            raise FragmentUnavailable.numbered(index, entity.path)
        return address

    async def settle(
        self, address: str, path: EntityPath, token: bytes, status: str
    ) -> None:
        """Raises the error of the owner."""
        asked: dict[str, object] = {"disposition-status": status}
        await self._ask(address, path, "update-disposition", token, asked)

    async def renew(self, address: str, path: EntityPath, token: bytes) -> int:
        """The new end of the lock. Raises the error of the owner."""
        answer = await self._ask(address, path, "renew-lock", token, {})
        ends = answer.get("expirations")
        if not isinstance(ends, AmqpArray) or not isinstance(ends.items[0], int):
            raise InternalError(entity_path=path.text)
        return int(ends.items[0])

    async def _ask(
        self,
        address: str,
        path: EntityPath,
        operation: str,
        token: bytes,
        asked: dict[str, object],
    ) -> dict[object, object]:
        tokens = AmqpArray(_UUID, [uuid_of(token)])
        message = Message(
            application_properties={"operation": f"com.microsoft:{operation}"},
            body=AmqpValue({"lock-tokens": tokens, **asked}),
        )
        node = f"{path.text.lower()}/$management"
        answer = await self._peers.request(address, node, message)
        properties = answer.application_properties or {}
        condition = properties.get("errorCondition")
        if condition is not None or properties.get("statusCode") != 200:
            raise from_condition(
                str(condition or "amqp:internal-error"),
                str(properties.get("statusDescription", "")),
                entity_path=path.text,
            )
        value = answer.body.value if isinstance(answer.body, AmqpValue) else None
        return value if isinstance(value, dict) else {}


def _properties(
    caller: HttpCaller,
    indexes: list[int],
    *,
    reserves: bool = False,
    may_restore: bool = False,
) -> Properties:
    """Of an attach at the owner."""
    return peer_properties(
        {},
        indexes,
        caller.name,
        expires_at=caller.expires_at,
        may_restore=may_restore and caller.holds(Claim.SEND, ""),
        reserves=reserves,
    )

"""Attaches between brokers: which fragments an attach of another broker is for, and
where an attach of a client goes on to."""

from typing import TYPE_CHECKING, Final

from twinbus.amqp.link import Link
from twinbus.amqp.performatives import SENDER_SETTLED
from twinbus.amqp.types import Symbol
from twinbus.auth.claims import Claim
from twinbus.auth.grants import Right
from twinbus.auth.resource import address_path
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.doors.amqp.session_attach import SessionAttach
from twinbus.entities.entity import Entity
from twinbus.errors import ArgumentError, AuthenticationFailed, FragmentUnavailable
from twinbus.links.arrivals import Arrivals
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.relayed_enlistment import RelayedEnlistment
from twinbus.peers.peer_properties import (
    CLIENT,
    EXPIRES,
    FRAGMENTS,
    KEEP,
    MAY_RESTORE,
    RESERVE,
    Properties,
    peer_properties,
)
from twinbus.peers.receive_relay import ReceiveRelay
from twinbus.peers.remote_sends import RemoteSends
from twinbus.peers.remote_source import RemoteSource
from twinbus.peers.send_relay import SendRelay
from twinbus.peers.session_candidate import SessionCandidate

if TYPE_CHECKING:
    from twinbus.doors.amqp.amqp_connection import AmqpConnection

_TRANSFER_DESTINATION: Final = "com.microsoft:transfer-destination-address"


# --- at the owner ---------------------------------------------------------------


def asked_fragments(
    link: Link, entity: Entity, now: int, sub_queue: int = MAIN
) -> list[Fragment]:
    """The fragments that an attach of another broker is for. Raises ArgumentError,
    AuthenticationFailed, and FragmentUnavailable if one is not served here."""
    expires_at = link.properties.get(EXPIRES)
    if isinstance(expires_at, int) and expires_at <= now:
        raise AuthenticationFailed(
            "The token of the client expired on the way to the entity.",
            entity_path=entity.path,
        )
    indexes = link.properties.get(FRAGMENTS)
    if not isinstance(indexes, list) or not indexes:
        raise ArgumentError(
            f"An attach between brokers needs '{FRAGMENTS}'.", entity_path=entity.path
        )
    fragments = []
    for index in indexes:
        is_known = isinstance(index, int) and 0 <= index < entity.fragment_count
        if not is_known or not entity.home(index).is_serving:
            raise FragmentUnavailable.numbered(int(index), entity.path)
        fragments.append(entity.fragment(sub_queue, index))
    return fragments


def asks_to_keep(link: Link) -> bool:
    """Nobody serves the fragments, and their messages are to be kept here."""
    return link.properties.get(KEEP) is True


ASKING_FOR: Final = " for "
"""Follows what a broker does, and precedes the client it does it for."""


def asking_client(link: Link) -> str:
    """Who the attach is made for, for the operation log."""
    return f"{ASKING_FOR}{link.properties.get(CLIENT, '?')}"


def may_restore(link: Link) -> bool:
    """The client may send to the whole namespace."""
    return link.properties.get(MAY_RESTORE) is True


def asks_to_reserve(link: Link) -> bool:
    """The other broker hands the messages out."""
    return link.properties.get(RESERVE) is True


# --- at the client's broker -----------------------------------------------------


def relay_sender(
    connection: "AmqpConnection",
    link: Link,
    entity: Entity,
    arrivals: Arrivals,
    address: str,
    right: Right,
) -> None:
    """Pass the link on to the broker that has the entity. Raises UnauthorizedAccess."""
    now = connection.clock.now()
    rights = [right]
    destination = link.properties.get(_TRANSFER_DESTINATION)
    if isinstance(destination, str):
        path = address_path(destination)
        rights.append(connection.grants.require(Claim.SEND, path, now))
    enlisting = RelayedEnlistment(
        *(connection.coordinator, arrivals, entity.routing().destination_at(0)),
        destination if isinstance(destination, str) else None,
        connection.clock.now,
    )
    relay = SendRelay(
        link,
        entity.path,
        connection.peers.connection(address),
        connection.output,
        arrivals,
        forwarded(connection, link, range_of(entity), right),
        enlisting,
    )
    link.context = relay
    connection.attached(relay, entity.send_links(), *rights)
    relay.start()


def relay_receiver(
    connection: "AmqpConnection",
    link: Link,
    entity: Entity,
    path: EntityPath,
    indexes: list[int],
    address: str,
    right: Right,
) -> None:
    """Pass the link on to the broker that has these fragments."""
    relay = ReceiveRelay(
        link,
        path.text,
        connection.peers.connection(address),
        connection.output,
        forwarded(connection, link, indexes, right),
        entity.homes(),
    )
    link.context = relay
    connection.attached(relay, entity.receive_links(), right)
    relay.start()


def check_served(connection: "AmqpConnection", entity: Entity) -> None:
    """In a cluster, a client does not wait at a broker that may not get the store.
    Raises FragmentUnavailable if none of its stores is served here."""
    homes = entity.homes()
    if connection.peers.is_cluster and not any(home.is_serving for home in homes):
        raise FragmentUnavailable.none_left(entity.path)


def remote_sends(
    connection: "AmqpConnection", link: Link, entity: Entity, right: Right
) -> RemoteSends | None:
    """The ways to fragments at other brokers; None without a cluster."""
    if not connection.peers.is_cluster:
        return None
    common = forwarded(connection, link, [], right)

    def properties(index: int, keeps: bool) -> Properties:
        return {**common, Symbol(FRAGMENTS): [index], Symbol(KEEP): keeps}

    return RemoteSends(connection.peers, entity.path, entity.homes(), properties)


def fragments_here(entity: Entity, sub_queue: int) -> list[Fragment]:
    """Its fragments whose stores are served here."""
    return [
        entity.fragment(sub_queue, index)
        for index, home in enumerate(entity.homes())
        if home.is_serving
    ]


def join_remotes(
    connection: "AmqpConnection",
    link: Link,
    entity: Entity,
    path: EntityPath,
    merged: MergedReceiveLink,
    right: Right,
) -> None:
    """Let other brokers deliver their fragments' messages on the link."""
    peek_lock = link.snd_settle_mode != SENDER_SETTLED
    for address, some in _elsewhere(connection, entity).items():
        merged.join_remote(
            RemoteSource(
                *(merged, link, path.text, connection.output),
                connection.peers.connection(address),
                peek_lock,
                forwarded(connection, link, some, right, reserves=True),
                entity.homes(),
            )
        )


def ask_for_sessions(
    connection: "AmqpConnection",
    link: Link,
    entity: Entity,
    path: EntityPath,
    attach: SessionAttach,
    right: Right,
) -> None:
    """Let other brokers offer their next session."""
    for address, some in _elsewhere(connection, entity).items():
        attach.ask_elsewhere(
            SessionCandidate(
                *(link, path.text, connection.peers.connection(address)),
                connection.output,
                forwarded(connection, link, some, right),
                entity.homes(),
                attach,
            )
        )


def _elsewhere(connection: "AmqpConnection", entity: Entity) -> dict[str, list[int]]:
    """The indexes of fragments at other brokers, by their addresses."""
    indexes: dict[str, list[int]] = {}
    for index, home in enumerate(entity.homes()):
        address = connection.peers.address_of(home)
        if address is not None:
            indexes.setdefault(address, []).append(index)
    return indexes


def range_of(entity: Entity) -> list[int]:
    """The indexes of all its fragments."""
    return list(range(entity.fragment_count))


def forwarded(
    connection: "AmqpConnection",
    link: Link,
    indexes: list[int],
    right: Right,
    *,
    reserves: bool = False,
) -> Properties:
    """The properties of the attach at the owner."""
    now = connection.clock.now()
    key_name, expires_at = connection.grants.basis_of(right)
    return peer_properties(
        link.properties,
        indexes,
        f"{connection.peer_name} {key_name}".rstrip(),
        expires_at=expires_at,
        may_restore=connection.grants.allows(Claim.SEND, "", now),
        reserves=reserves,
    )

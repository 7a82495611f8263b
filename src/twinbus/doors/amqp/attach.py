"""Answers an attach: to an entity, to a node, or with a refusal.

The address names the entity or node, the role gives the direction, and the settle mode
gives the receive mode. Each attach is checked against the claims that the connection
has shown so far. A refusal is an attach without termini, followed by a detach with the
error.
"""

from typing import TYPE_CHECKING

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.transactions import Coordinator
from twinbus.amqp.types import ULong
from twinbus.auth.claims import Claim
from twinbus.auth.grants import Right
from twinbus.auth.resource import address_path
from twinbus.broker.entity_path import EntityPath, parse_entity_path
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.home import Home
from twinbus.doors.amqp import cbs, namespace_management
from twinbus.doors.amqp.cbs import CbsNode
from twinbus.doors.amqp.connection_caller import ConnectionCaller
from twinbus.doors.amqp.lease_notice import answered_properties
from twinbus.doors.amqp.management import ManagementNode
from twinbus.doors.amqp.namespace_management import NamespaceNode
from twinbus.doors.amqp.peer_attach import (
    ask_for_sessions,
    asked_fragments,
    asking_client,
    asks_to_keep,
    asks_to_reserve,
    check_served,
    fragments_here,
    join_remotes,
    may_restore,
    range_of,
    relay_receiver,
    relay_sender,
    remote_sends,
)
from twinbus.doors.amqp.peer_node import PeerNode
from twinbus.doors.amqp.request_links import (
    Node,
    Request,
    RequestLink,
    Response,
    ResponseLink,
)
from twinbus.doors.amqp.session_attach import (
    SessionAttach,
    asks_for_session,
    names_session,
    session_id_of,
)
from twinbus.doors.amqp.shipped_transactions import (
    ShippedTransactions,
    destination_finder,
)
from twinbus.entities.entity import Entity
from twinbus.errors import (
    ArgumentError,
    NotAllowed,
    NotSupported,
    ServiceBusError,
)
from twinbus.limits import CONTROL_REQUEST_BYTES
from twinbus.links.arrivals import Arrivals
from twinbus.links.coordinator_link import CoordinatorLink
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.receive_link import ReceiveLink
from twinbus.links.refusal import amqp_error, log_refusal
from twinbus.links.routes import Routes
from twinbus.links.send_link import SendLink
from twinbus.links.via import Via
from twinbus.operations.entity_arrivals import entity_arrivals
from twinbus.peers import peer_requests
from twinbus.peers.transaction_shipping import TransactionShipping

if TYPE_CHECKING:
    from twinbus.doors.amqp.amqp_connection import AmqpConnection

_MAX_BATCH_SIZE = "com.microsoft:max-message-batch-size"
_TRANSFER_DESTINATION = "com.microsoft:transfer-destination-address"
_SETTLED = 1


def on_attach(connection: "AmqpConnection", link: Link) -> None:
    """Answer an attach."""
    try:
        _attach(connection, link)
    except ServiceBusError as error:
        _log_refusal(connection, link, error)
        link.refuse(amqp_error(error))


def _log_refusal(
    connection: "AmqpConnection", link: Link, error: ServiceBusError
) -> None:
    """In the operation log, if there is such an entity here."""
    try:
        path = parse_entity_path(_path(link))
        entity = connection.namespace.entity(path.entity)
        fragment = entity.find_fragment(0, path.sub_queue)
    except ServiceBusError:
        return
    if fragment is not None and fragment.home.is_serving:
        verb = "receive" if link.peer_is_receiver else "send"
        actor = connection.introduce(fragment.home, f"{verb} {path.text}")
        log_refusal(fragment, actor, error)


def _attach(connection: "AmqpConnection", link: Link) -> None:
    if not link.peer_is_receiver and isinstance(link.target, Coordinator):
        _attach_to_coordinator(connection, link)
        return
    path = _path(link)
    if path.lower() == cbs.ADDRESS:
        _attach_to_node(connection, link, connection.node(cbs.ADDRESS, _cbs))
        return
    if connection.is_for_peers and path == peer_requests.ADDRESS:
        node = connection.node(peer_requests.ADDRESS, _peer_node)
        _attach_to_node(connection, link, node)
        return
    entity = parse_entity_path(path)
    if entity.is_management:
        _attach_to_management(connection, link, entity)
    elif link.peer_is_receiver:
        _attach_receiver(connection, link, entity)
    else:
        _attach_sender(connection, link, entity)


def _path(link: Link) -> str:
    """The address on our side. Raises ArgumentError, NotSupported."""
    terminus = link.source if link.peer_is_receiver else link.target
    if isinstance(terminus, Source | Target):
        if terminus.dynamic:
            raise NotSupported("Dynamic nodes are not supported.")
        if isinstance(terminus.address, str):
            return address_path(terminus.address)
    elif terminus is not None:
        raise NotSupported(
            "A link needs an address, or the coordinator of transactions as its target."
        )
    raise ArgumentError("The attach has no address. Name the entity to attach to.")


# --- nodes ----------------------------------------------------------------------


def _cbs(connection: "AmqpConnection") -> Node:
    return CbsNode(
        *(connection.namespace, connection.clock, connection.visitor),
        connection.proved,
    )


def _namespace(connection: "AmqpConnection") -> Node:
    return NamespaceNode(
        *(connection.namespace, connection.clock, connection.grants),
        connection.visitor.name,
        is_for_peers=connection.is_for_peers,
    )


def _peer_node(connection: "AmqpConnection") -> Node:
    def introduce(home: Home) -> int:
        return connection.introduce(home, "transactions")

    async def ask_node(address: str, request: Request) -> Response:
        entity = parse_entity_path(address)
        largest = connection.namespace.largest_message_bytes
        return await _management(connection, entity, largest).answer(request)

    namespace, clock = connection.namespace, connection.clock
    caller = ConnectionCaller(connection.grants, clock, introduce, connection.peer_name)
    transactions = ShippedTransactions(
        namespace, clock, connection.coordinator, caller, ask_node
    )
    largest = connection.largest_message_bytes()
    return PeerNode(namespace, transactions, largest)


def _attach_to_management(
    connection: "AmqpConnection", link: Link, entity: EntityPath
) -> None:
    if not entity.entity:
        connection.grants.require(Claim.MANAGE, "", connection.clock.now())
        address = namespace_management.ADDRESS
        _attach_to_node(connection, link, connection.node(address, _namespace))
        return
    namespace, path = connection.namespace, entity.text
    grants, clock = connection.grants, connection.clock
    # Java up to 7.17.1 attaches before it has put a token. Whether the entity exists,
    # and its maximum message size, are told only to a client that has shown a right.
    message_bytes = namespace.largest_message_bytes
    if grants.allows_some(path, clock.now()):
        known = namespace.entity(entity.entity)
        message_bytes = namespace.sizes.max_message_bytes_of(known)

    def make(connection: "AmqpConnection") -> Node:
        return _management(connection, entity, message_bytes)

    address = _management_address(entity)
    _attach_to_node(connection, link, connection.node(address, make))


def _management_address(entity: EntityPath) -> str:
    return f"{entity.text.lower()}/$management"


def _management(
    connection: "AmqpConnection", entity: EntityPath, message_bytes: int
) -> ManagementNode:
    address = _management_address(entity)

    def introduce(home: Home) -> int:
        return connection.introduce(home, address)

    caller = ConnectionCaller(
        *(connection.grants, connection.clock, introduce), connection.peer_name
    )
    peers = None if connection.is_for_peers else connection.peers
    return ManagementNode(
        address, entity, message_bytes, connection.namespace, caller, peers
    )


def _attach_to_node(connection: "AmqpConnection", link: Link, node: Node) -> None:
    responses = connection.responses(link.session)
    if link.peer_is_receiver:
        response_link = ResponseLink(
            link, node, connection.output, connection.unanswered
        )
        responses.append(response_link)
        link.context = response_link
        link.accept()
    else:
        request_link = RequestLink(
            link,
            node,
            responses,
            connection.requests,
            connection.coordinator,
            connection.output,
            connection.turns,
            connection.unanswered,
        )
        link.context = request_link
        link.accept(max_message_size=node.max_request_bytes)
        request_link.start()


def _attach_to_coordinator(connection: "AmqpConnection", link: Link) -> None:
    """No claim is required: clients attach before they have shown one, and each
    operation in a transaction checks its own."""
    remote: TransactionShipping | None = None
    if connection.peers.is_cluster and not connection.is_for_peers:
        remote = TransactionShipping(
            connection.peers, connection.peer_name, connection.requests
        )
    coordinator_link = CoordinatorLink(
        link, connection.coordinator, connection.output, remote
    )
    link.context = coordinator_link
    link.accept(max_message_size=CONTROL_REQUEST_BYTES)
    coordinator_link.start()


# --- queues ---------------------------------------------------------------------


def _attach_sender(
    connection: "AmqpConnection", link: Link, entity: EntityPath
) -> None:
    namespace, now = connection.namespace, connection.clock.now()
    right = connection.grants.require(Claim.SEND, entity.text, now)
    queue = namespace.entity(entity.entity)
    if entity.sub_queue != MAIN:
        raise NotAllowed.sent_to_sub_queue(entity.text)
    queue.check_may_send()
    arrivals = _arrivals(connection, link, queue)
    what = f"send {queue.path}"
    fragment: Fragment | None
    if connection.is_for_peers and asks_to_keep(link):
        fragment = None
    elif connection.is_for_peers:
        fragment = asked_fragments(link, queue, now)[0]
        what += asking_client(link)
    else:
        address = connection.peers.sole_owner(queue.homes())
        if address is not None and not queue.is_partitioned:
            relay_sender(connection, link, queue, arrivals, address, right)
            return
        fragment = _any_fragment(connection, queue)
    actor = 0 if fragment is None else connection.introduce(fragment.home, what)
    via, via_rights = _via(connection, link, queue, actor)
    send_link = SendLink(
        link,
        fragment,
        actor,
        arrivals,
        connection.output,
        connection.coordinator,
        via,
        _routes(connection, link, queue, right),
        queue.path,
        connection.is_for_peers,
    )
    link.context = send_link
    connection.attached(send_link, queue.send_links(), right, *via_rights)
    limit = arrivals.max_message_bytes
    link.accept(
        properties={**link.properties, _MAX_BATCH_SIZE: ULong(limit)},
        max_message_size=limit,
        tolerated_message_size=arrivals.tolerated_bytes,
    )
    send_link.start()


def _any_fragment(connection: "AmqpConnection", entity: Entity) -> Fragment | None:
    """One of its fragments that are here; None if all are at other brokers, or if its
    messages are kept while nobody serves it. Raises MessagingEntityNotFound,
    FragmentUnavailable."""
    has_detour = connection.namespace.detour_of(entity) is not None
    is_kept = connection.peers.is_cluster and not entity.is_partitioned and has_detour
    if is_kept or connection.peers.has_remote(entity.homes()):
        found = [
            entity.find_fragment(index)
            for index, home in enumerate(entity.homes())
            if home.is_serving
        ]
        return found[0] if found else None
    check_served(connection, entity)
    return entity.fragments()[0]


def _routes(
    connection: "AmqpConnection", link: Link, entity: Entity, right: Right
) -> Routes | None:
    """The ways to the fragments of a partitioned entity, and to any entity if there
    is more than one store. Otherwise there is only one, which the link knows."""
    detour = connection.namespace.detour_of(entity)
    if connection.is_for_peers and not asks_to_keep(link):
        return None
    if detour is None and not entity.is_partitioned:
        return None

    def introduce(home: Home) -> int:
        return connection.introduce(home, f"send {entity.path}")

    given = connection, link, entity, right
    return Routes(
        entity.routing(),
        introduce,
        connection.clock.now,
        detour,
        None if connection.is_for_peers else remote_sends(*given),
    )


def _arrivals(connection: "AmqpConnection", link: Link, entity: Entity) -> Arrivals:
    """Reads the messages that this connection sends to an entity."""
    if connection.is_for_peers:
        is_allowed = may_restore(link)
        return entity_arrivals(connection.namespace, entity, lambda _: is_allowed)

    def may_restore_now(now: int) -> bool:
        return connection.grants.allows(Claim.SEND, "", now)

    return entity_arrivals(connection.namespace, entity, may_restore_now)


def _via(
    connection: "AmqpConnection", link: Link, way: Entity, actor: int
) -> tuple[Via | None, tuple[Right, ...]]:
    """The destination of a send via this entity, if the sender names one, and the
    right to send there.

    Raises ArgumentError, UnauthorizedAccess. Each send checks whether the destination
    exists and accepts messages.
    """
    address = link.properties.get(_TRANSFER_DESTINATION)
    if address is None:
        return None, ()
    if not isinstance(address, str):
        raise ArgumentError.about(
            _TRANSFER_DESTINATION, value=address, expected="the path of an entity"
        )
    namespace, path = connection.namespace, address_path(str(address))
    right = connection.grants.require(Claim.SEND, path, connection.clock.now())

    return Via(way.fragment(), destination_finder(namespace, path), actor), (right,)


def _attach_receiver(
    connection: "AmqpConnection", link: Link, entity: EntityPath
) -> None:
    now = connection.clock.now()
    right = connection.grants.require(Claim.LISTEN, entity.text, now)
    queue = connection.namespace.entity(entity.entity)
    queue.check_may_receive(entity.sub_queue)
    queue.used_at = now
    peek_lock = link.snd_settle_mode != _SETTLED
    what = f"receive {entity.text}"
    if connection.is_for_peers:
        fragments = asked_fragments(link, queue, now, entity.sub_queue)
        what += asking_client(link)
    elif (asked := _asked_elsewhere(connection, link, queue)) is not None:
        indexes, address = asked
        relay_receiver(connection, link, queue, entity, indexes, address, right)
        return
    elif connection.peers.has_remote(queue.homes()):
        fragments = fragments_here(queue, entity.sub_queue)
    else:
        check_served(connection, queue)
        fragments = queue.fragments(entity.sub_queue)
    if asks_for_session(link, queue.settings(entity.sub_queue)):
        session_id = session_id_of(link)
        attach_here = not connection.is_for_peers and queue.is_partitioned
        if session_id is not None and attach_here:
            routing = queue.routing()
            fragments = [
                queue.fragment(
                    entity.sub_queue,
                    routing.available(routing.index_of(session_id)).index,
                )
            ]
        attach = SessionAttach(
            *(connection, link, fragments, what, peek_lock, queue.path)
        )
        if session_id is None and attach_here:
            ask_for_sessions(connection, link, queue, entity, attach, right)
        link.context = attach
        connection.attached(attach, queue.receive_links(), right)
        attach.wait()
        return
    is_merged = connection.peers.has_remote(queue.homes())
    is_merged = is_merged and not connection.is_for_peers
    receive_link = _receive_link(
        *(connection, link, fragments, what, peek_lock, queue.path, is_merged)
    )
    if is_merged and isinstance(receive_link, MergedReceiveLink):
        join_remotes(connection, link, queue, entity, receive_link, right)
    link.context = receive_link
    connection.attached(receive_link, queue.receive_links(), right)
    link.accept(properties=answered_properties(link, queue, entity, now))


def _asked_elsewhere(
    connection: "AmqpConnection", link: Link, entity: Entity
) -> tuple[list[int], str] | None:
    """The fragments to receive from and the broker that has them, if it is one and
    another one. A named session is in one fragment."""
    indexes, homes = range_of(entity), entity.homes()
    if entity.settings().requires_session and names_session(link):
        session_id = session_id_of(link)
        if session_id is not None and entity.is_partitioned:
            index = entity.routing().index_of(session_id)
            indexes, homes = [index], [homes[index]]
    address = connection.peers.sole_owner(homes)
    return None if address is None else (indexes, address)


def _receive_link(
    connection: "AmqpConnection",
    link: Link,
    fragments: list[Fragment],
    what: str,
    peek_lock: bool,
    path: str,
    is_merged: bool,
) -> ReceiveLink | MergedReceiveLink:
    """`is_merged`: fragments of other brokers will be added."""
    reserves = connection.is_for_peers and asks_to_reserve(link)
    if len(fragments) == 1 and not is_merged:
        actor = connection.introduce(fragments[0].home, what)
        return ReceiveLink(
            *(link, fragments[0], actor, peek_lock, connection.output),
            reserves=reserves,
        )
    merged = MergedReceiveLink(link, path, peek_lock, connection.output)
    actors: dict[Home, int] = {}
    for fragment in fragments:
        home = fragment.home
        if home not in actors:
            actors[home] = connection.introduce(home, what)
        merged.join(fragment, actors[home], reserves)
    return merged

"""Which entities forward to which, and the forwarders that do it.

A target must exist when it is named, and be a queue or a topic. It may be deleted or
disabled later: then what would be forwarded becomes a dead letter. A target may lead
back to where a message came from; hops are counted, and end that.
"""

from functools import partial
from typing import TYPE_CHECKING

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.entities.entity import Description, Entity
from twinbus.entities.message_source import MessageSource
from twinbus.entities.subscription import Subscription
from twinbus.errors import ArgumentError, MessagingEntityNotFound
from twinbus.links.forwarding import Forwarder
from twinbus.owner.store_owner import StoreOwner

if TYPE_CHECKING:
    from twinbus.entities.namespace import Namespace

_FORWARDED_SUB_QUEUES = (MAIN, DEAD_LETTER)


class Forwarders:
    """The forwarding of one namespace."""

    def __init__(self, namespace: "Namespace", owner: StoreOwner) -> None:
        self._namespace = namespace
        self._owner = owner
        # By fragment number, with its source and the target's path.
        self._running: dict[int, tuple[Fragment, Forwarder, str]] = {}

    # --- checks ---------------------------------------------------------------

    def check(self, path: str, description: Description) -> None:
        """Raises ArgumentError, NotAllowed, MessagingEntityNotFound."""
        forward_to = forward_path(getattr(description, "forward_to", ""))
        dead_letters_to = forward_path(
            getattr(description, "forward_dead_lettered_messages_to", "")
        )
        for target in filter(None, (forward_to, dead_letters_to)):
            self._check_target(path, target)

    def _check_target(self, path: str, target: str) -> None:
        try:
            entity = self._namespace.entity(target)
        except MessagingEntityNotFound:
            raise MessagingEntityNotFound(
                f"'{path}' cannot forward to '{target}': The messaging entity "
                f"'{target}' could not be found.",
                entity_path=target,
            ) from None
        if isinstance(entity, Subscription):
            raise ArgumentError(
                f"'{path}' cannot forward to '{target}', a subscription. Name a queue "
                "or a topic.",
                entity_path=path,
            )

    # --- running --------------------------------------------------------------

    def renew(self, entity: Entity) -> None:
        """The entity was made, or its description changed."""
        if not isinstance(entity, MessageSource):
            return
        for sub_queue in _FORWARDED_SUB_QUEUES:
            self._renew(entity, sub_queue, entity.forward_target(sub_queue))

    def _renew(self, entity: Entity, sub_queue: int, target: str) -> None:
        counters = entity.counters(sub_queue)
        running = None if counters is None else self._running.get(counters.number)
        if running is not None and running[2] == target:
            return
        if running is not None:
            self._stop(running[0])
        if target:
            self._start(entity.fragment(sub_queue), target)

    def _start(self, source: Fragment, target: str) -> None:
        owner = self._owner
        actor = owner.introduce(f"forward {source.settings.path} to {target}")
        find = partial(self._find_target, target)
        forwarder = Forwarder(source, find, actor)
        self._running[source.number] = (source, forwarder, target)
        owner.join(source, forwarder)
        owner.offer_capacity(source, forwarder)

    def _find_target(self, path: str) -> Fragment:
        """Raises MessagingEntityNotFound, EntityDisabled."""
        entity = self._namespace.entity(path)
        entity.check_may_send()
        return entity.fragment()

    def stop(self, entity: Entity) -> None:
        """The entity is being deleted."""
        for sub_queue in _FORWARDED_SUB_QUEUES:
            counters = entity.counters(sub_queue)
            if counters is not None and counters.number in self._running:
                self._stop(self._running[counters.number][0])

    def _stop(self, source: Fragment) -> None:
        _, forwarder, _ = self._running.pop(source.number)
        forwarder.stop()
        self._owner.leave(source, forwarder)

    def tick(self, now: int) -> None:
        """What could not be forwarded before may be now."""
        for source, forwarder, _ in list(self._running.values()):
            if source.active_count:
                forwarder.retry(now)
                self._owner.offer_capacity(source, forwarder)

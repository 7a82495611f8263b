"""The forwarding of a namespace: checks targets and runs the forwarders.

A target must be an existing queue or topic when it is set. If it is deleted or disabled
later, messages are dead-lettered instead of forwarded. Targets may form a loop; the
limit of hops ends it.
"""

from functools import partial
from typing import TYPE_CHECKING

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.entities.entity import Description, Entity
from twinbus.entities.message_source import MessageSource
from twinbus.entities.subscription import Subscription
from twinbus.errors import ArgumentError, MessagingEntityNotFound
from twinbus.fragments.routing import Routing
from twinbus.links.forwarding import Forwarder

if TYPE_CHECKING:
    from twinbus.entities.namespace import Namespace

_FORWARDED_SUB_QUEUES = (MAIN, DEAD_LETTER)


class Forwarders:
    """The forwarding of one namespace."""

    def __init__(self, namespace: "Namespace") -> None:
        self._namespace = namespace
        # Forwarder and target path by source.
        self._running: dict[Fragment, tuple[Forwarder, str]] = {}

    # --- checks ---------------------------------------------------------------

    def check(self, path: str, description: Description) -> None:
        """Raises ArgumentError, MessagingEntityNotFound."""
        for target in _targets(description):
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
        """Start, stop or replace forwarders after a creation or update."""
        if not isinstance(entity, MessageSource):
            return
        for sub_queue in _FORWARDED_SUB_QUEUES:
            self._renew(entity, sub_queue, entity.forward_target(sub_queue))

    def _renew(self, entity: Entity, sub_queue: int, target: str) -> None:
        for source in entity.loaded_fragments(sub_queue):
            running = self._running.get(source)
            if running is not None and running[1] != target:
                self._stop(source)
        if target:
            for source in entity.fragments(sub_queue):
                if source not in self._running:
                    self._start(source, target)

    def _start(self, source: Fragment, target: str) -> None:
        home = source.home
        actor = home.introduce(f"forward {source.settings.path} to {target}")
        find = partial(self._find_target, target)
        forwarder = Forwarder(source, find, actor)
        self._running[source] = (forwarder, target)
        home.join(source, forwarder)
        home.offer_capacity(source, forwarder)

    def _find_target(self, path: str) -> Routing:
        """Raises MessagingEntityNotFound, EntityDisabled."""
        entity = self._namespace.entity(path)
        entity.check_may_send()
        return entity.routing()

    def stop(self, entity: Entity) -> None:
        """Stop the forwarders of an entity that is being deleted."""
        for sub_queue in _FORWARDED_SUB_QUEUES:
            for source in entity.loaded_fragments(sub_queue):
                if source in self._running:
                    self._stop(source)

    def _stop(self, source: Fragment) -> None:
        forwarder, _ = self._running.pop(source)
        forwarder.stop()
        source.home.dismiss(forwarder.actor)
        source.home.leave(source, forwarder)

    def tick(self, now: int) -> None:
        """Retry messages that could not be forwarded."""
        for source, (forwarder, _) in list(self._running.items()):
            if source.active_count:
                forwarder.retry(now)
                source.home.offer_capacity(source, forwarder)


def _targets(description: Description) -> list[str]:
    """Paths that a description forwards to."""
    forward_to = getattr(description, "forward_to", "")
    dead_letters_to = getattr(description, "forward_dead_lettered_messages_to", "")
    paths = (forward_path(forward_to), forward_path(dead_letters_to))
    return [path for path in paths if path]

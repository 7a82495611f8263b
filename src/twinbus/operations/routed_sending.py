"""Send messages to an entity, some of whose fragments other brokers have.

It goes the way of a send link (`links/routes.py`): to a fragment here, through another
broker, or to where messages are kept while nobody serves their fragment.
"""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.fragment import MAIN
from twinbus.encoding.batch import BATCH_FORMAT, encode_batch
from twinbus.encoding.layout import IDENTIFIED
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import NotAllowed
from twinbus.links.remote_fragments import RemoteFragments
from twinbus.links.routes import Routes
from twinbus.links.sending import check_message
from twinbus.operations.caller import Caller
from twinbus.operations.entity_arrivals import entity_arrivals
from twinbus.owner.awaited_commit import AwaitedCommit


class RoutedSender:
    """Sends of one caller to one entity, one after the other."""

    def __init__(
        self,
        namespace: Namespace,
        entity: Entity,
        path: EntityPath,
        caller: Caller,
        remote: RemoteFragments,
    ) -> None:
        self._namespace = namespace
        self.entity = entity
        self._path = path
        # Of the last request: its token may be a new one.
        self.caller = caller
        self._arrivals = entity_arrivals(namespace, entity, self._may_restore)
        self._routes = Routes(
            entity.routing(),
            caller.actor_in,
            namespace.clock.now,
            namespace.detour_of(entity),
            remote,
        )
        self._is_sending = False
        self._is_closed = False

    def _may_restore(self, now: int) -> bool:
        return self.caller.holds(Claim.SEND, "")

    async def send(self, encoded: Sequence[bytes], *, is_batch: bool) -> None:
        """Raises as the operation `send`."""
        self.caller.require(Claim.SEND, self._path.text)
        if self._path.sub_queue != MAIN:
            raise NotAllowed.sent_to_sub_queue(self._path.text)
        self.entity.check_may_send()
        now, commit = self._namespace.clock.now(), AwaitedCommit()
        payload, message_format = encoded[0], 0
        if is_batch:
            payload, message_format = encode_batch(encoded), BATCH_FORMAT
        messages = self._arrivals.read(payload, message_format, now)
        settings = self._routes.settings()
        for message in messages:
            check_message(settings, message)
        is_identified = self._arrivals.marks & IDENTIFIED != 0
        self._routes.send(
            messages, is_identified, 0, commit, now, payload, message_format
        )
        self._is_sending = True
        try:
            await commit.done()
        finally:
            self._is_sending = False
            if self._is_closed:
                self._routes.close()

    def close(self) -> None:
        """What is on its way is answered first: it may have been stored."""
        self._is_closed = True
        if not self._is_sending:
            self._routes.close()

"""Tells a receiver that it will get nothing for now, because a reader has a lease.

The receiver stays attached, and is served when the lease ends. Its SDK shows nothing of
this, so the server's log says it, too.
"""

import logging
from typing import Final

from twinbus.amqp.link import Link
from twinbus.amqp.types import ULong
from twinbus.broker.entity_path import EntityPath
from twinbus.entities.entity import Entity

_log = logging.getLogger(__name__)

_READER: Final = "twinbus:reader-lease"
_LEFT: Final = "twinbus:reader-lease-left-ms"


def answered_properties(
    link: Link, entity: Entity, path: EntityPath, now: int
) -> dict[object, object] | None:
    """The properties for the answer to a receiver's attach: its own, and the lease."""
    told: dict[object, object] = {**link.properties}
    # Paths are compared in any case; that of the lease is as the entity was created.
    own = EntityPath(entity=entity.path, sub_queue=path.sub_queue).text
    for lease in entity.leases_here(now):
        if lease.path == own:
            left_ms = lease.expires_at - now
            told.update({_READER: lease.reader, _LEFT: ULong(left_ms)})
            _log.warning(
                "a receiver of '%s' gets nothing: the reader '%s' has a lease, for %d "
                "seconds or until it is renewed no more. 'twinbus leases end' ends it",
                *(own, lease.reader, -(-left_ms // 1000)),
            )
    return told or None

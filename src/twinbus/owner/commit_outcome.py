"""What became of a commit: it happened, nothing of it did, or nobody can say.

A store that cannot say ends with an error here, and its owner cannot go on. In all
other cases the owner knows what to tell those who wait.
"""

import logging
from typing import TYPE_CHECKING

from twinbus.broker.changes import ChangeSet
from twinbus.errors import (
    STORE_IS_FULL,
    STORE_IS_READ_ONLY,
    STORE_TROUBLE,
    ServiceBusError,
    StoreRefused,
)
from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    Store,
    StoreError,
    StoreFull,
    StoreReadOnly,
)

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)


async def refusal_of_commit(
    owner: "StoreOwner", store: Store, changes: ChangeSet
) -> ServiceBusError | None:
    """Commit; returns why nothing of it happened, or None if it did. Raises StoreError
    if that cannot be known, or if another has the store."""
    try:
        await store.commit(changes)
        return None
    except StoreFull as error:
        _tell(owner, "commit %d refused, the store is full: %s", changes, error)
        owner.room.commit_found_none(owner.clock.now())
        return StoreRefused(STORE_IS_FULL)
    except StoreReadOnly as error:
        _tell(owner, "commit %d failed: %s", changes, error)
        return StoreRefused(STORE_IS_READ_ONLY)
    except CommitFailed as error:
        _tell(owner, "commit %d failed: %s", changes, error)
    except CommitUnknown as error:
        _log.error("commit %d has an unknown outcome: %s", changes.batch, error)
        if await store.last_batch() == changes.batch:
            return None
    return StoreRefused(
        "The message store could not take the operation; nothing of it happened. "
        f"Try again. {STORE_TROUBLE}"
    )


def _tell(
    owner: "StoreOwner", line: str, changes: ChangeSet, error: StoreError
) -> None:
    """To the log, but not for every commit while the trouble lasts."""
    if owner.health.is_news(error, owner.clock.now()):
        _log.error(line, changes.batch, error)

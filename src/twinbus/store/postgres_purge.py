"""A portion of a dropped fragment's rows removed, inside a transaction.

Rows that share a body release it with them. The bodies of a dropped topic go with the
rows of its subscriptions; until they have, its number must not be used again, because a
body is named by a row id of the topic.
"""

from typing import Final, final

from twinbus.broker.row_id import SEQUENCE_MASK, base_of
from twinbus.store.postgres_changes import CommitSteps, CurrentSegments
from twinbus.store.postgres_connection import SQL
from twinbus.store.postgres_session import PostgresSession
from twinbus.store.postgres_upkeep import SegmentUpkeep

_MESSAGES: Final = ("purge_active", "purge_deferred", "purge_scheduled")
_OF_A_FRAGMENT: Final = ("purge_ledger_ids", "purge_session_states", "purge_rules")
_NO_SEGMENTS: Final = CurrentSegments(message=None, shared_body=None, body_use=None)


@final
class PostgresPurge:
    """Of one store: knows how far it has come, so as not to walk over what is gone."""

    def __init__(self, segments: SegmentUpkeep) -> None:
        self._segments = segments
        # By statement and fragment: the last row id that was removed.
        self._through: dict[tuple[str, int], int] = {}

    async def portion(
        self, session: PostgresSession, fragment_number: int, limit: int
    ) -> bool:
        """Remove up to `limit` rows; True when the number may be used again."""
        left = limit
        for name in _MESSAGES:
            left -= await self._messages(session, name, fragment_number, left)
        for name in _OF_A_FRAGMENT:
            names = {"number": fragment_number, "limit": left}
            left -= len(await session.rows(SQL[name], names))
        base = base_of(fragment_number)
        bounds = (base, base + SEQUENCE_MASK)
        if left == 0 or (await session.rows(SQL["has_bodies"], bounds))[0][0]:
            return False
        await session.rows(SQL["forget_dropped_fragment"], (fragment_number,))
        for name in _MESSAGES:
            self._through.pop((name, fragment_number), None)
        return True

    async def _messages(
        self, session: PostgresSession, name: str, fragment_number: int, limit: int
    ) -> int:
        base = base_of(fragment_number)
        first = self._through.get((name, fragment_number), base)
        bounds = (first, base + SEQUENCE_MASK, limit)
        rows = await session.rows(SQL[name], bounds)
        if not rows:
            return 0
        self._through[name, fragment_number] = max(row_id for row_id, _, _ in rows)
        released = [body_id for _, body_id, _ in rows if body_id is not None]
        for _, _, oid in rows:
            self._segments.removed(oid, 1)
        await self._release(session, released)
        return len(rows)

    async def _release(self, session: PostgresSession, released: list[int]) -> None:
        steps = CommitSteps(_NO_SEGMENTS)
        steps.bodies((), (), released)
        for statement, parameters in steps.steps:
            for oid, count in await session.rows(statement, parameters):
                self._segments.removed(oid, count)

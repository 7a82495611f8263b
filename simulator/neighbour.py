"""Another namespace on the disk of a simulated bus, which must not be touched.

It was served once, by another bus with the same catalog. Its queue has a message, and a
scheduled one that is long due: at the end both must still be there, unchanged.
"""

from typing import Final, final

from simulator.disk import Disk
from simulator.sighting import Violation
from simulator.store_check import Content
from twinbus.broker import schedule
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import Message
from twinbus.store.catalog import EntityRecord, stored_entity
from twinbus.store.opening import open_store

_GENERATION: Final = b"a neighbour's id"
_RAW: Final = b"\x00\x53\x77\xa1\x02hi"
_LAYOUT: Final = 4 << 2
_ACTOR: Final = 1


@final
class Neighbour:
    """A queue that must not change."""

    def __init__(self) -> None:
        self.number = 0
        self._record: tuple[int, int, int, int] = (1, 0, 1, 2 * len(_RAW))

    async def settle_in(self, disk: Disk, now: int) -> None:
        """Create it, before the first start of the bus."""
        store, catalog = disk.store(), disk.catalog()
        opened = await open_store(store, "neighbour", now)
        record = EntityRecord(
            namespace="neighbour",
            path="kept",
            kind="queue",
            generation=_GENERATION,
            description={},
            created_at=now,
            updated_at=now,
            placement=(opened.store_uuid,),
        )
        await store.commit(self._changes(record, opened.epoch, now))
        await store.close()
        await catalog.open()
        await catalog.put(record)
        await catalog.close()

    def _changes(self, record: EntityRecord, epoch: int, now: int) -> ChangeSet:
        table, changes = FragmentTable(epoch, []), ChangeSet()
        table.admit(_GENERATION, FragmentSettings(path=record.path))
        fragment = table.create(_GENERATION, 0, changes)
        self.number = fragment.number
        fragment.enqueue(Message(_RAW, _LAYOUT, 0, 0), _ACTOR, now, changes)
        due = Message(_RAW, _LAYOUT, 0, now + 1)
        schedule.schedule(fragment, due, _ACTOR, now, changes)
        changes.entities_put.append(stored_entity(record))
        changes.seal(epoch, 1, now)
        return changes

    def check(self, content: Content) -> None:
        """Raises Violation."""
        found = content.records.get(self.number)
        if found != self._record:
            raise Violation(
                f"a queue of another namespace was {self._record} and is {found}"
            )

"""Which of the announced brokers run: their processes, as far as these can be seen from
here, or their beats."""

import asyncio

from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.cluster.terms import BEAT_MS
from twinbus.store.catalog import Catalog
from twinbus.store.process_identity import is_running, is_visible


async def running_brokers(catalog: Catalog) -> list[Announcement]:
    """Takes more than two beats if there are some on other machines."""
    before = await announced_brokers(catalog)
    hidden = {
        one.broker_uuid: one.beat for one in before if not is_visible(one.process)
    }
    running = [
        one for one in before if is_visible(one.process) and is_running(one.process)
    ]
    if hidden:
        await asyncio.sleep(2.5 * BEAT_MS / 1000)
        running += [
            one
            for one in await announced_brokers(catalog)
            if one.beat > hidden.get(one.broker_uuid, one.beat)
        ]
    return running


async def announced_brokers(catalog: Catalog) -> list[Announcement]:
    """Those whose announcement can be read."""
    found = map(announcement_of, await catalog.brokers())
    return [one for one in found if one is not None]

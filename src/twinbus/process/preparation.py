"""Makes stores and entities ready for brokers that will share them.

A store gets its UUID when it is made, and all brokers must know it from the catalog. So
one process makes what is missing, before the first broker starts. While brokers run
nothing is prepared: they have the stores.
"""

import asyncio
from typing import Final

from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.cluster.terms import BEAT_MS
from twinbus.config.config import Config
from twinbus.owner.sharing import Sharing
from twinbus.process.data_folder import DataFolder
from twinbus.process.server import Server
from twinbus.store.base import StoreInUse
from twinbus.store.catalog import Catalog
from twinbus.store.process_identity import is_running, is_visible

_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.5
"""How often, and after which pause, it is tried again while another process does the
same."""


async def prepare_stores(config: Config) -> None:
    """Raises StoreError, ConfigError, OSError."""
    for _ in range(_TRIES):
        if await _do_brokers_run(config):
            return
        try:
            await Server(config, sharing=Sharing.PREPARING).prepare()
            return
        except StoreInUse as error:
            in_use = error
        await asyncio.sleep(_PAUSE_SECONDS)
    raise in_use


async def _do_brokers_run(config: Config) -> bool:
    catalog = DataFolder(config).catalog()
    if not catalog.exists():
        return False
    await catalog.open()
    try:
        return bool(await running_brokers(catalog))
    finally:
        await catalog.close()


async def running_brokers(catalog: Catalog) -> list[Announcement]:
    """The brokers that are announced and run: their processes, as far as they can be
    seen from here, or their beats."""
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

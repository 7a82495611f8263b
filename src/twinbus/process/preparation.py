"""Makes stores and entities ready for brokers that will share them.

A store gets its UUID when it is made, and all brokers must know it from the catalog. So
one process makes what is missing, before the first broker starts. While brokers run
nothing is prepared: they have the stores.
"""

import asyncio
from typing import Final

from twinbus.cluster.running_brokers import running_brokers
from twinbus.config.config import Config
from twinbus.owner.sharing import Sharing
from twinbus.process.data_folder import DataFolder, RootKey
from twinbus.process.server import Server
from twinbus.store.base import StoreInUse

_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.5
"""How often, and after which pause, it is tried again while another process does the
same."""


async def prepare_stores(config: Config) -> RootKey | None:
    """Returns the key of the root rule if this is the first start, and has made it.
    Raises StoreError, ConfigError, OSError."""
    made: RootKey | None = None
    for _ in range(_TRIES):
        if await _do_brokers_run(config):
            return made
        try:
            server = Server(config, sharing=Sharing.PREPARING)
            made = server.root_key if server.root_key.is_new else made
            await server.prepare()
            return made
        except StoreInUse as error:
            in_use = error
        await asyncio.sleep(_PAUSE_SECONDS)
    raise in_use


def key_to_show(kept: RootKey, made: RootKey | None) -> RootKey:
    """The first start shows the key: to later ones it is one that was kept."""
    return made if made is not None and made.text == kept.text else kept


async def _do_brokers_run(config: Config) -> bool:
    catalog = DataFolder(config).catalog()
    if not catalog.exists():
        return False
    await catalog.open()
    try:
        return bool(await running_brokers(catalog))
    finally:
        await catalog.close()

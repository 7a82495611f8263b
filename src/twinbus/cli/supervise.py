"""`twinbus serve --brokers N`: the life of the supervisor and its brokers.

To people it looks like one server: one connection string, one line `ready`, one process
to stop. Lines of a broker's log have its number in front.
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure, complain
from twinbus.cli.hang_up import heed_hang_up
from twinbus.cli.ports import Ports, ports
from twinbus.cli.serve import announce, begin_log, start_failures, told_to_stop
from twinbus.clock import SystemClock
from twinbus.config.config import Config
from twinbus.entities.store_entries import remembered_stores
from twinbus.owner.sharing import Sharing
from twinbus.process.certificates import name_port
from twinbus.process.data_folder import DataFolder
from twinbus.process.listener import listening_sockets
from twinbus.process.preparation import key_to_show, prepare_stores
from twinbus.process.seat import HTTP_PORT, PORT, TLS_PORT, Sockets, own_name
from twinbus.process.supervisor import BrokerFailed, Supervisor
from twinbus.store.catalog import Catalog


def run_supervisor(config: Config) -> None:
    """Serve until told to stop. Raises Failure."""
    begin_log(config)
    asyncio.run(_supervise(config))


async def _supervise(config: Config) -> None:
    told = told_to_stop()
    found = ports(config)
    with start_failures(found.config):
        sockets = _open_sockets(found)
        made = await prepare_stores(found.config)
        root_key = key_to_show(DataFolder(config).root_key(), made)
        catalog = DataFolder(config).catalog()
    found = _with_port(found, sockets)
    supervisor = await _supervisor(found.config, catalog, sockets)
    try:
        if await _is_started(supervisor, told):
            heed_hang_up(supervisor.reload, told.set)
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR2, supervisor.diagnose)
            announce(found, found.config.port, root_key)
            await told.wait()
    finally:
        await supervisor.stop()
        await catalog.close()


def _open_sockets(found: Ports) -> Sockets:
    """Raises OSError."""
    config = found.config
    sockets = {PORT: listening_sockets(config.host, config.port)}
    numbers = {HTTP_PORT: config.http_port, TLS_PORT: config.tls_port}
    for setting, number in numbers.items():
        is_used = setting != TLS_PORT or found.tls is not None
        if is_used and number not in (0, sockets[PORT][0].getsockname()[1]):
            sockets[setting] = listening_sockets(config.host, number)
    return sockets


def _with_port(found: Ports, sockets: Sockets) -> Ports:
    """The number of a port that was to be any free one."""
    port = sockets[PORT][0].getsockname()[1]
    if found.tls is not None and found.config.port == 0:
        name_port(found.tls, found.config, port, SystemClock().now())
    return replace(found, config=replace(found.config, port=port))


async def _supervisor(config: Config, catalog: Catalog, sockets: Sockets) -> Supervisor:
    """Raises Failure."""
    with start_failures(config):
        remembered = remembered_stores(await catalog.open())
        shared = DataFolder(config).stores(Sharing.SHARED)
    stores = [store.location for store in shared]
    if len(stores) < config.brokers:
        complain(
            f"note: {config.brokers} brokers share {len(stores)} stores, so some own "
            "none. Add stores with --store."
        )
    return Supervisor(
        catalog,
        [remembered[location] for location in stores if location in remembered],
        sockets,
        config.brokers,
        sys.argv[1:],
        tell=_tell,
        name_of=lambda name: own_name(name, config),
        name_exit=exit_codes.named,
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _is_started(supervisor: Supervisor, told: asyncio.Event) -> bool:
    """False if it was told to stop before all brokers were ready. Raises Failure."""
    starting = asyncio.ensure_future(supervisor.start())
    waiting = asyncio.ensure_future(told.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not starting.done():
        starting.cancel()
        return False
    try:
        starting.result()
    except BrokerFailed as failed:
        raise Failure(str(failed), failed.exit_code) from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Failure(f"Brokers can't be started: {why}.", exit_codes.FAILED) from None
    return True

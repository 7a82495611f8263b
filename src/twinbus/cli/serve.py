"""The life of a server process: settings, start, `ready`, stop.

What the terminal reads goes to stdout, in the order in which it is needed: the
connection string, how to trust the certificate, then the line `ready`. The key is in
the string once, when it has just been made: what is printed is kept in logs. The log
and all trouble go to stderr. SIGTERM and SIGINT stop the server cleanly: what was
accepted is durable and answered before the process ends. SIGHUP has the certificate
read again.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Final

import uvloop

from twinbus import __version__, compilation
from twinbus.cli import exit_codes
from twinbus.cli.allocator import give_memory_back
from twinbus.cli.connection_lines import connection_lines
from twinbus.cli.failure import Failure, complain
from twinbus.cli.hang_up import heed_hang_up
from twinbus.cli.key_warnings import key_warnings
from twinbus.cli.listening import is_loopback, listening_error, why_not_listen
from twinbus.cli.log_lines import LogLine
from twinbus.cli.operation_log.pyarrow_extra import require_pyarrow
from twinbus.cli.ports import (
    Ports,
    inherited_ports,
    ports,
    trust_instructions,
    websocket_instructions,
)
from twinbus.cli.sqlite_mutexes import spare_mutexes
from twinbus.clock import SystemClock
from twinbus.cluster.terms import EARLY_DIAGNOSIS_SECONDS
from twinbus.config.config import Config, ConfigError, local_connection_string
from twinbus.diagnosis.sickness import Sickness
from twinbus.diagnosis.watchdog import Watchdog
from twinbus.owner.sharing import Sharing
from twinbus.process.certificate_reload import CertificateReload
from twinbus.process.certificates import expiry_warning, name_port
from twinbus.process.data_folder import RootKey
from twinbus.process.log_exporter import LogExporter
from twinbus.process.preparation import key_to_show, prepare_stores
from twinbus.process.seat import Seat
from twinbus.process.server import Server
from twinbus.process.server_diagnosis import ASKED_FOR, STUCK
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.urls import is_for_machines, without_password

_AUDIT: Final = "twinbus.audit"
"""The logger of `doors/audit.py`, which does not depend on the log level."""

_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Connections that ended are the only cycles; so many objects are a few megabytes."""


_SWITCH_SECONDS: Final = 0.0001
"""How long a thread waits for the interpreter, where several stores are synced in
threads (decision 0015)."""


def run_server(config: Config) -> None:
    """Serve until told to stop. Raises Failure."""
    begin_log(config)
    if config.operation_log_folder:
        require_pyarrow()
    give_memory_back()
    spare_mutexes()
    if len(config.store) > 1:
        # Their syncs are in threads, which must get their turn from a busy loop.
        sys.setswitchinterval(_SWITCH_SECONDS)
    uvloop.run(_serve(config))


def run_broker(config: Config, seat: Seat) -> None:
    """Be one of several brokers, until told to stop. Raises Failure."""
    begin_log(config)
    give_memory_back()
    spare_mutexes()
    # A store that is shared is synced in a thread, even if it is the only one.
    sys.setswitchinterval(_SWITCH_SECONDS)
    uvloop.run(_serve_with_others(config, seat))


def begin_log(config: Config) -> None:
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(LogLine())
    logging.basicConfig(level=config.log_level.upper(), handlers=[to_stderr])
    audit = logging.getLogger(_AUDIT)
    audit.disabled = config.audit == "off"
    if not audit.isEnabledFor(logging.INFO):
        audit.setLevel(logging.INFO)


def told_to_stop() -> asyncio.Event:
    """Set by the signals that end a server cleanly."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    # A certificate is read at the start anyway.
    heed_hang_up(lambda: None, told.set)
    return told


async def _serve(config: Config) -> None:
    told = told_to_stop()
    found = ports(config)
    server = _made(found, Sharing.ALONE, None)
    await _start(server, found.config)
    if found.tls is not None and found.config.port == 0:
        name_port(found.tls, found.config, server.port, server.clock.now())
    _spare_garbage_collection()
    watchdog = _watched(server, found.config)
    renewing = _renewing(server, found.config, told)
    announce(found, server.port, server.root_key)
    async with _exporting(found.config, server):
        await _until_the_end(server, told, watchdog)
    renewing.cancel()


@asynccontextmanager
async def _exporting(config: Config, server: Server) -> AsyncIterator[None]:
    """Export the operation log meanwhile, if that is wanted. Raises Failure."""
    if not config.operation_log_folder:
        yield
        return
    exporter = LogExporter(config, server.clock)
    exporter.start()
    try:
        yield
    finally:
        await exporter.stop()


async def _serve_with_others(config: Config, seat: Seat) -> None:
    """Of a supervisor, or by hand, with `--join`."""
    told = told_to_stop()
    made: RootKey | None = None
    is_supervised = bool(seat.sockets)
    is_first = seat.number == 1 and (is_supervised or is_for_machines(config.catalog))
    if not is_first:
        # One broker of a machine runs the syphon of the pair, and the export.
        config = replace(config, pair=None, operation_log_folder="")
    if is_supervised:
        found = inherited_ports(config, seat)
        asyncio.get_running_loop().add_reader(seat.life_line, told.set)
    else:
        found = ports(config)
        with start_failures(found.config):
            made = await prepare_stores(found.config)
    server = _made(found, Sharing.SHARED, seat)
    await _start(server, found.config)
    _spare_garbage_collection()
    watchdog = _watched(server, found.config)
    renewing = _renewing(server, found.config, told)
    if not is_supervised and await _is_settled(server, told):
        announce(found, server.port, key_to_show(server.root_key, made))
    async with _exporting(found.config, server):
        await _until_the_end(server, told, watchdog)
    renewing.cancel()


async def _is_settled(server: Server, told: asyncio.Event) -> bool:
    """Wait until all stores have an owner; False if the end comes before."""
    assert server.broker is not None and server.fatal is not None
    settled, ended = (
        asyncio.ensure_future(e.wait()) for e in (server.broker.settled, told)
    )
    await asyncio.wait(
        (settled, ended, server.fatal), return_when=asyncio.FIRST_COMPLETED
    )
    settled.cancel()
    ended.cancel()
    return server.broker.settled.is_set()


def _made(found: Ports, sharing: Sharing, seat: Seat | None) -> Server:
    config = found.config
    try:
        return Server(config, tls=found.tls, sharing=sharing, seat=seat)
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except OSError as error:
        raise Failure(
            f"The data folder {config.data} can't be used: "
            f"{os.strerror(error.errno or 0)}. Choose another with --data.",
            exit_codes.UNREADABLE,
        ) from None


async def _start(server: Server, config: Config) -> None:
    with start_failures(config):
        await server.start()


@contextmanager
def start_failures(config: Config) -> Iterator[None]:
    """Errors of a start as failures of the command."""
    try:
        yield
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except OSError as error:
        raise _port_failure(error, config) from None


def _port_failure(error: OSError, config: Config) -> Failure:
    """The further ports were free a moment ago, so they are rarely the ones."""
    port, flag = config.port, "--port"
    for further, further_flag in (
        (config.http_port, "--http-port"),
        (config.tls_port, "--tls-port"),
    ):
        if further and listening_error(config.host, port) is None:
            port, flag = further, further_flag
    peer_host = config.peer_host or config.host
    is_named = bool(config.peer_host or config.peer_port)
    if is_named and (wrong := listening_error(peer_host, config.peer_port)):
        text = why_not_listen(wrong, peer_host, config.peer_port, "--peer-port")
        return Failure(text.replace("see --host", "see --peer-host"), exit_codes.PORT)
    return Failure(why_not_listen(error, config.host, port, flag), exit_codes.PORT)


def _renewing(
    server: Server, config: Config, told: asyncio.Event
) -> asyncio.Task[None]:
    """From now on a certificate is read again when it changes, and on SIGHUP."""
    ready = replace(config, port=server.port)
    reload = CertificateReload(server, ready, server.clock)
    heed_hang_up(reload.reload, told.set)
    return asyncio.create_task(reload.watch(), name="certificate")


def _watched(server: Server, config: Config) -> Watchdog | None:
    """From now on diagnoses are written: when somebody asks, and when it is stuck."""
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGUSR2, server.diagnosis.try_to_write, ASKED_FOR
    )
    return _watchdog(server, config)


def _watchdog(server: Server, config: Config) -> Watchdog | None:
    """Ends the process if it is sick, so that somebody starts it again."""

    def end(sickness: Sickness) -> None:
        complain(f"sick: {sickness.text}")
        # Not by `stop`: that would wait for what does not happen any more.
        os._exit(exit_codes.SICK)

    if config.watchdog_seconds == 0:
        return None
    server.condition.on_sick = end
    watchdog = Watchdog(
        config.watchdog_seconds,
        lambda: server.condition.tick_count,
        lambda: server.diagnosis.try_to_write(STUCK),
        exit_codes.SICK,
    )
    if server.broker is not None:
        watchdog.write_early(EARLY_DIAGNOSIS_SECONDS, server.diagnosis.write_early)
    watchdog.start(server.diagnosis.last_resort)
    return watchdog


def _spare_garbage_collection() -> None:
    """Look for cycles rarely, and never among what was made at the start.

    Messages die by reference count. Under load the usual thresholds cost a few
    percent of the CPU, and full passes over all modules pause every client.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def announce(found: Ports, port: int, root_key: RootKey) -> None:
    """Tell people what they need; `ready` is the last line, for scripts."""
    config = found.config
    if not is_loopback(config.host):
        complain(
            f"warning: plain TCP on {config.host} is open to the network: keys and "
            "messages can be read on the way. Use TLS, or --host 127.0.0.1."
        )
    for warning in key_warnings(config, root_key):
        complain(f"warning: {warning}")
    if found.tls and (expiry := expiry_warning(config, SystemClock().now())):
        complain(f"warning: {expiry}")
    for trouble in found.troubles:
        complain(f"note: port {port} serves everything alone. {trouble}")
    if config.print_connection_string:
        print(local_connection_string(config.host, port, root_key.text))
        print("ready", flush=True)
        return
    urls = [without_password(url) for url in config.store]
    data = ", ".join(urls) or config.data
    print(f"twinbus {__version__} ({compilation.describe()}), messages in {data}")
    for line in connection_lines(config, port, root_key):
        print(line)
    if found.tls is not None:
        for line in trust_instructions(config, port):
            print(line)
    for line in websocket_instructions(config, port, has_tls=found.tls is not None):
        print(line)
    print("ready", flush=True)


async def _until_the_end(
    server: Server, told_to_stop: asyncio.Event, watchdog: Watchdog | None
) -> None:
    """Raises Failure if it was the store that ended it."""
    assert server.fatal is not None
    waiting = asyncio.ensure_future(told_to_stop.wait())
    await asyncio.wait((waiting, server.fatal), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if watchdog is not None:
        watchdog.stop()
    await server.stop()
    if server.fatal.done():
        text = f"The store can't go on: {server.fatal.result()}"
        raise Failure(text, exit_codes.STORE_FAILED)

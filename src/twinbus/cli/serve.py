"""The life of a server process: settings, start, `ready`, stop.

What the terminal reads goes to stdout, in the order in which it is needed: the
connection string, how to trust the certificate, then the line `ready`. The key is in
the string once, when it has just been made: what is printed is kept in logs. The log
and all trouble go to stderr. SIGTERM and SIGINT stop the server cleanly: what was
accepted is durable and answered before the process ends.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from typing import Final

import uvloop

from twinbus import __version__, compilation
from twinbus.cli import exit_codes
from twinbus.cli.allocator import give_memory_back
from twinbus.cli.connection_lines import connection_lines
from twinbus.cli.failure import Failure, complain
from twinbus.cli.key_warnings import key_warnings
from twinbus.cli.listening import is_loopback, listening_error, why_not_listen
from twinbus.cli.log_lines import LogLine
from twinbus.cli.ports import Ports, ports, trust_instructions
from twinbus.config.config import Config, ConfigError
from twinbus.diagnosis.sickness import Sickness
from twinbus.diagnosis.watchdog import Watchdog
from twinbus.process.certificates import name_port
from twinbus.process.server import Server
from twinbus.process.server_diagnosis import ASKED_FOR, STUCK
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.urls import without_password

_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Connections that ended are the only cycles; so many objects are a few megabytes."""


_SWITCH_SECONDS: Final = 0.0001
"""How long a thread waits for the interpreter, where several stores are synced in
threads (decision 0015)."""


def run_server(config: Config) -> None:
    """Serve until told to stop. Raises Failure."""
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(LogLine())
    logging.basicConfig(level=config.log_level.upper(), handlers=[to_stderr])
    give_memory_back()
    if len(config.store) > 1:
        # Their syncs are in threads, which must get their turn from a busy loop.
        sys.setswitchinterval(_SWITCH_SECONDS)
    uvloop.run(_serve(config))


async def _serve(config: Config) -> None:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    found = ports(config)
    server = _made(found)
    await _start(server, found.config)
    if found.tls is not None and found.config.port == 0:
        name_port(found.tls, found.config, server.port, server.clock.now())
    _spare_garbage_collection()
    loop.add_signal_handler(signal.SIGUSR2, server.diagnosis.try_to_write, ASKED_FOR)
    watchdog = _watchdog(server, found.config)
    _announce(server, found)
    await _until_the_end(server, told_to_stop, watchdog)


def _made(found: Ports) -> Server:
    config = found.config
    try:
        return Server(config, tls=found.tls)
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except OSError as error:
        raise Failure(
            f"The data folder {config.data} can't be used: "
            f"{os.strerror(error.errno or 0)}. Choose another with --data.",
            exit_codes.UNREADABLE,
        ) from None


async def _start(server: Server, config: Config) -> None:
    try:
        await server.start()
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
    return Failure(why_not_listen(error, config.host, port, flag), exit_codes.PORT)


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
    watchdog.start(server.diagnosis.last_resort)
    return watchdog


def _spare_garbage_collection() -> None:
    """Look for cycles rarely, and never among what was made at the start.

    Messages die by reference count. Under load the usual thresholds cost a few
    percent of the CPU, and full passes over all modules pause every client.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _announce(server: Server, found: Ports) -> None:
    """Tell people what they need; `ready` is the last line, for scripts."""
    config = found.config
    if not is_loopback(config.host):
        complain(
            f"warning: plain TCP on {config.host} is open to the network: keys and "
            "messages can be read on the way. Use TLS, or --host 127.0.0.1."
        )
    for warning in key_warnings(config, server.root_key):
        complain(f"warning: {warning}")
    for trouble in found.troubles:
        complain(f"note: port {server.port} serves everything alone. {trouble}")
    urls = [without_password(url) for url in config.store]
    data = ", ".join(urls) or config.data
    print(f"twinbus {__version__} ({compilation.describe()}), messages in {data}")
    for line in connection_lines(config, server.port, server.root_key):
        print(line)
    if found.tls is not None:
        for line in trust_instructions(config, server.port):
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

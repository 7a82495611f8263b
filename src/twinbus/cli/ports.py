"""Which ports there are besides the main one, and what to tell people about them.

All ports serve everything: AMQP, HTTP and TLS with either inside. The further two are
where clients look by themselves. TLS and the ports are on by default, so that they are
there when somebody wants them; but the ports are well-known ones. Where nobody asked
for one and it cannot be had, the server goes without and says so. What was asked for
by name is given or refused.
"""

import ssl
from dataclasses import dataclass, replace
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.connection_lines import own_command
from twinbus.cli.failure import Failure
from twinbus.cli.listening import listening_error, why_not_listen
from twinbus.clock import SystemClock
from twinbus.config.config import Config, ConfigError, local_host
from twinbus.process.certificates import (
    JAVA_PASSWORD,
    bundle_file,
    ca_file,
    java_file,
    tls_context,
)
from twinbus.process.seat import HTTP_PORT, PORT, TLS_PORT, Seat
from twinbus.store.urls import is_volatile

_FURTHER_PORTS: Final = {"http_port": "--http-port", "tls_port": "--tls-port"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What the server is given, and what people are told."""

    # Without the ports that cannot be had.
    config: Config
    # None: TLS is not spoken.
    tls: ssl.SSLContext | None
    # Why ports are left out although nobody switched them off.
    troubles: tuple[str, ...]


def ports(config: Config) -> Ports:
    """The ports that the configuration means. Raises Failure."""
    tls = _tls(config)
    troubles: list[str] = []
    without: dict[str, Any] = {}
    for name, flag in _FURTHER_PORTS.items():
        port = getattr(config, name)
        error = listening_error(config.host, port) if port else None
        if error is None or port == config.port:
            continue
        trouble = why_not_listen(error, config.host, port, flag)
        if name in config.asked_for:
            raise Failure(trouble, exit_codes.PORT)
        troubles.append(trouble)
        without[name] = 0
    return Ports(config=replace(config, **without), tls=tls, troubles=tuple(troubles))


def inherited_ports(config: Config, seat: Seat) -> Ports:
    """The ports that a supervisor has opened. Raises Failure."""
    numbers = {name: seat.port_of(name) for name in (PORT, HTTP_PORT, TLS_PORT)}
    settings: dict[str, Any] = dict(numbers)
    return Ports(config=replace(config, **settings), tls=_tls(config), troubles=())


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.tls_port == 0:
        return None
    try:
        return tls_context(config, SystemClock().now())
    except ConfigError as wrong:
        raise Failure(str(wrong), exit_codes.USAGE) from None


def trust_instructions(config: Config, port: int) -> tuple[str, ...]:
    """How clients come to trust the certificate of a server on that port."""
    if config.tls_cert:
        return (f"TLS on port {port} too, with the certificate you gave.",)
    authority, bundle, store = (
        file(config).absolute() for file in (ca_file, bundle_file, java_file)
    )
    return (
        f"TLS on port {port} too: leave out UseDevelopmentEmulator, and trust the "
        "authority of this data folder:",
        *_for_shells(config, port),
        f'  Python  ServiceBusClient(..., connection_verify="{authority}"), and',
        "          ServiceBusAdministrationClient likewise, which takes TLS only",
        f"  Node    NODE_EXTRA_CA_CERTS={authority}",
        f"  Java    -Djavax.net.ssl.trustStore={store}",
        f"          -Djavax.net.ssl.trustStorePassword={JAVA_PASSWORD}",
        *_java_port(config),
        f"  others  SSL_CERT_FILE={bundle}",
    )


def websocket_instructions(
    config: Config, port: int, *, has_tls: bool
) -> tuple[str, ...]:
    """How clients come by WebSockets; most look at port 443 unless they are told."""
    shown = local_host(config.host)
    endpoint = f"sb://{shown}:{port}"
    found = [
        f"AMQP over WebSockets on port {port} too:",
        "  Python  transport_type=TransportType.AmqpOverWebsocket,",
        f'          custom_endpoint_address="{endpoint}"',
    ]
    if has_tls:
        found += [
            f'  Node    webSocketOptions: {{ webSocket: require("ws") }}, {endpoint}',
            f"  Java    transportType(AmqpTransportType.AMQP_WEB_SOCKETS), {endpoint}",
        ]
    found.append(
        '  Go      NewWebSocketConn that dials args.Host with Subprotocols "amqp"'
    )
    return tuple(found)


def _for_shells(config: Config, port: int) -> tuple[str, ...]:
    """One line for all of them, where the key is kept for it."""
    if config.key or is_volatile(config.store):
        return ()
    return (f'  all     eval "$({own_command("env", config, port)})"',)


def _java_port(config: Config) -> tuple[str, ...]:
    """Its administration client takes the host of an Endpoint, but not the port."""
    if 443 in (config.port, config.http_port, config.tls_port):
        return ()
    return (
        "          administration: at port 443 only, so serve with --http-port 443",
    )

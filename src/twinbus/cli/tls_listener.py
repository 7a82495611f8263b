"""Whether there is a TLS listener, and what to tell people about it.

TLS is on by default, so that it is there when somebody wants it; but its port is a
well-known one. Where nobody asked for TLS and the port cannot be had, the server
goes without and says so. What was asked for by name is given or refused.
"""

import ssl
from dataclasses import dataclass

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.listening import listening_error, why_not_listen
from twinbus.clock import SystemClock
from twinbus.config import Config, ConfigError
from twinbus.server.certificates import ca_file, tls_context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsListener:
    """What the server is given, and what people are told."""

    # None: there is no listener.
    context: ssl.SSLContext | None = None
    # Why there is none although nobody switched it off.
    trouble: str = ""
    instructions: tuple[str, ...] = ()


def tls_listener(config: Config) -> TlsListener:
    """The listener that the configuration means. Raises Failure."""
    if config.tls_port == 0:
        return TlsListener()
    error = listening_error(config.host, config.tls_port)
    if error is not None:
        trouble = why_not_listen(error, config.host, config.tls_port, "--tls-port")
        if config.is_tls_required:
            raise Failure(trouble, exit_codes.PORT)
        return TlsListener(trouble=trouble)
    try:
        context = tls_context(config, SystemClock().now())
    except ConfigError as wrong:
        raise Failure(str(wrong), exit_codes.USAGE) from None
    return TlsListener(context=context, instructions=_instructions(config))


def _instructions(config: Config) -> tuple[str, ...]:
    if config.tls_cert:
        return (f"TLS on port {config.tls_port}, with the certificate you gave.",)
    authority = ca_file(config).absolute()
    return (
        f"TLS on port {config.tls_port}: leave out UseDevelopmentEmulator, and trust "
        "the authority of this data folder:",
        f'  Python  ServiceBusClient(..., connection_verify="{authority}")',
        f"  Node    NODE_EXTRA_CA_CERTS={authority}",
        f"  others  SSL_CERT_FILE={authority}",
    )

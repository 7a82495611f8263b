"""The certificate of the TLS listener: a configured one, or our own.

Our own is signed by an authority that exists only in this data folder. Clients trust
the authority once; a new certificate is made when the old one expires soon or lacks a
name. Names are also added with each port: Go's SDK asks for the name `localhost:5671`
if the Endpoint has a port.

    tls/ca.pem       the authority, for clients to trust; see also `trust_files.py`
    tls/ca-key.pem   the authority with its private key, readable by the owner only
    tls/server.pem   certificate and private key, likewise
"""

import os
import socket
import ssl
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from twinbus.config.config import Config, ConfigError
from twinbus.doors.arrived_at import note_names
from twinbus.instants import instant_of

JAVA_PASSWORD: Final = "changeit"
"""The password of Java's trust store, the same as for Java's own: it protects no
secret, but Java needs one."""

_SOON: Final = timedelta(days=14)
"""Before the end of a certificate that was given: those that are renewed by programs
are renewed a month before."""

_WILDCARDS: Final = ("", "0.0.0.0", "::")


def tls_context(config: Config, now: int) -> ssl.SSLContext:
    """The TLS context of the listener. Creates missing files. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    note_names(context)
    if config.tls_cert:
        chain, key = Path(config.tls_cert), Path(config.tls_key or config.tls_cert)
    else:
        chain = key = _own_certificate(config, now)
    try:
        # An encrypted key is refused; otherwise the library would ask on the terminal.
        context.load_cert_chain(chain, key, password=lambda: b"")
    except ssl.SSLError as error:
        reason = error.reason or "it has no certificate with a private key"
        raise ConfigError(
            f"{chain} can't be used for TLS with the key in {key}: {reason}. Both "
            "must be PEM and belong together, and the key must not be encrypted."
        ) from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        missing = key if chain.exists() else chain
        raise ConfigError(f"{missing} can't be read: {why}.") from None
    return context


def expiry_warning(config: Config, now: int) -> str | None:
    """About a certificate that was given, and that clients refuse or soon will."""
    if not config.tls_cert:
        return None
    # The import takes a tenth of a second, and only TLS needs it.
    from cryptography import x509

    try:
        pem = Path(config.tls_cert).read_bytes()
        ends = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except (OSError, ValueError):
        return None
    left = ends - instant_of(now)
    if left > _SOON:
        return None
    verb = "ended" if left.total_seconds() < 0 else "ends"
    return (
        f"The certificate in {config.tls_cert} {verb} on {ends:%Y-%m-%d}, and clients "
        "refuse it from then on. Replace the file: it is read again while the bus runs."
    )


def name_port(context: ssl.SSLContext, config: Config, port: int, now: int) -> None:
    """Add the main port, if it was chosen by the system, to our own certificate."""
    if not config.tls_cert:
        own = _own_certificate(replace(config, port=port), now)
        context.load_cert_chain(own)


def ca_file(config: Config) -> Path:
    """The authority that clients must trust, if the certificate is our own."""
    return config.data / "tls" / "ca.pem"


def bundle_file(config: Config) -> Path:
    """The authority and the roots of this machine, for clients that trust one file."""
    return config.data / "tls" / "trust.pem"


def java_file(config: Config) -> Path:
    """The same as a trust store of Java."""
    return config.data / "tls" / "trust.p12"


def _own_certificate(config: Config, now: int) -> Path:
    folder = ca_file(config).parent
    try:
        # The data folder first, so that its parents get the usual permissions.
        config.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return _current_certificate(folder, _names(config), instant_of(now))
    except OSError as error:
        raise ConfigError(
            f"The data folder {config.data} can't be used for certificates: "
            f"{os.strerror(error.errno or 0)}. Choose another with --data, or switch "
            "TLS off with --tls-port 0."
        ) from None


def _current_certificate(folder: Path, names: set[str], now: datetime) -> Path:
    # The import takes a tenth of a second, and only TLS needs it.
    from twinbus.process.certificate_authority import authority_of
    from twinbus.process.trust_files import write_trust_files

    authority = authority_of(folder, now)
    write_trust_files(folder, (folder / "ca.pem").read_bytes())
    file = folder / "server.pem"
    if not authority.still_serves(file, names, now):
        authority.issue(file, names, now)
    return file


def _names(config: Config) -> set[str]:
    """All names that clients on this machine may use for it."""
    hosts = {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    if config.host not in _WILDCARDS:
        hosts.add(config.host)
    hosts |= {
        f"{name}.{host}"
        for name in config.namespaces
        for host in ("localhost", socket.gethostname())
    }
    # Certificates contain ASCII names only.
    hosts = {host for host in hosts if host and host.isascii()}
    ports = {config.port, config.http_port, config.tls_port} - {0}
    return hosts | {f"{_bracketed(host)}:{port}" for host in hosts for port in ports}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

"""What clients trust the authority by, in the forms that they read.

    tls/ca.pem      the authority alone, for clients that add it to what they trust
    tls/trust.pem   and the roots of this machine, for those that trust nothing else
    tls/trust.p12   the same for Java

A variable such as `SSL_CERT_FILE`, and Java's trust store, replace what a client trusts
otherwise: with the authority alone it could reach the bus and nothing else any more.
The files are written anew when the authority or the machine's roots have changed.
"""

import contextlib
import re
import warnings
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from twinbus.process.certificates import JAVA_PASSWORD
from twinbus.process.whole_files import PUBLIC, write_whole

MACHINE_ROOTS: Final = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, Red Hat
    Path("/etc/ssl/ca-bundle.pem"),  # SUSE
    Path("/etc/ssl/cert.pem"),  # macOS, Alpine
)
"""Where OpenSSL and Go look, too; the first that is there. Not `SSL_CERT_FILE`, which
may well name one of our own."""

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


def write_trust_files(folder: Path, authority: bytes) -> None:
    """The authority, as PEM, in the forms that clients read. Raises OSError."""
    bundle, java = folder / "trust.pem", folder / "trust.p12"
    pem = authority + _machine_roots()
    if java.exists() and bundle.exists() and bundle.read_bytes() == pem:
        return
    # The bundle last: it is what the next start looks at.
    write_whole(java, _java_store(_certificates(pem)), PUBLIC)
    write_whole(bundle, pem, PUBLIC)


def _machine_roots() -> bytes:
    for file in MACHINE_ROOTS:
        try:
            return file.read_bytes()
        except OSError:
            continue
    return b""


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """Without those that the library does not take: of a machine's hundred roots one
    or the other is odd."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in _CERTIFICATE.findall(pem):
            with contextlib.suppress(ValueError):
                found.append(x509.load_pem_x509_certificate(block))
    return found


def _java_store(certificates: list[x509.Certificate]) -> bytes:
    """Each under a name of its own; Java would keep one of those that share it."""
    entries = [
        pkcs12.PKCS12Certificate(
            certificate, f"root-{number}".encode() if number else b"twinbus"
        )
        for number, certificate in enumerate(certificates)
    ]
    encryption = serialization.BestAvailableEncryption(JAVA_PASSWORD.encode())
    return pkcs12.serialize_java_truststore(entries, encryption)

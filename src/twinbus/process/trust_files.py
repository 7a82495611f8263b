"""Files for clients to trust the authority, in several formats.

    tls/ca.pem      only the authority, for clients that add it to their roots
    tls/trust.pem   also the roots of this machine, for those that trust one file
    tls/trust.p12   the same for Java

A variable such as `SSL_CERT_FILE`, and Java's trust store, replace all roots of a
client: with only the authority, it could reach nothing but the bus. The files are
written again when the authority or the machine's roots have changed.
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
"""The places where OpenSSL and Go look; the first existing file is used. Not
`SSL_CERT_FILE`, since it may be one of our own files."""

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


def write_trust_files(folder: Path, authority: bytes) -> None:
    """Write the authority, given as PEM, in all formats. Raises OSError."""
    bundle, java = folder / "trust.pem", folder / "trust.p12"
    pem = authority + _machine_roots()
    if java.exists() and bundle.exists() and bundle.read_bytes() == pem:
        return
    # The bundle last, because the next start checks it.
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
    """The valid certificates; among a machine's hundred roots some are not."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in _CERTIFICATE.findall(pem):
            with contextlib.suppress(ValueError):
                found.append(x509.load_pem_x509_certificate(block))
    return found


def _java_store(certificates: list[x509.Certificate]) -> bytes:
    """Each has its own name, because Java keeps only one per name."""
    entries = [
        pkcs12.PKCS12Certificate(
            certificate, f"root-{number}".encode() if number else b"twinbus"
        )
        for number, certificate in enumerate(certificates)
    ]
    encryption = serialization.BestAvailableEncryption(JAVA_PASSWORD.encode())
    return pkcs12.serialize_java_truststore(entries, encryption)

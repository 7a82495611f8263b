"""A certificate authority in a folder: created once, and used to issue certificates.

A private key and its certificate share a file, so that no crash can separate them, and
a file appears under its name only when it is complete. A damaged authority is not
replaced: clients trust it, and a new one would look like an attack. Only this file and
`trust_files.py` use the library `cryptography`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from twinbus.config.config import ConfigError
from twinbus.process.whole_files import PRIVATE, PUBLIC, write_whole

_AUTHORITY_LIFE: Final = timedelta(days=3650)

_CERTIFICATE_LIFE: Final = timedelta(days=825)
"""The longest lifetime that every platform accepts from a private authority."""

_RENEWAL: Final = timedelta(days=120)
"""Checked when a server starts; few run longer than that without a restart."""

_SKEW: Final = timedelta(days=1)
"""Certificates are valid from a bit earlier, for clients whose clock is slow."""

_AUTHORITY_NAME: Final = "twinbus local authority"

_PURPOSE: Final = b"twinbus authority of a cluster"
_SCALAR_BYTES: Final = 48
_CURVE_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of SECP256R1 (SEC 2, 2.4.2)."""


class CertificateAuthority:
    """Issues certificates for the names of this machine."""

    def __init__(
        self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self.certificate = certificate
        self._key = key

    def still_serves(self, file: Path, names: Iterable[str], now: datetime) -> bool:
        """Whether the certificate in the file is ours, has the names, and is valid."""
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            certificate.verify_directly_issued_by(self.certificate)
            known = certificate.extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            )
        except (
            *(FileNotFoundError, ValueError, TypeError, InvalidSignature),
            x509.ExtensionNotFound,
        ):
            return False
        has_names = set(known.value) >= set(map(_general_name, names))
        return has_names and certificate.not_valid_after_utc - now > _RENEWAL

    def issue(self, file: Path, names: Iterable[str], now: datetime) -> None:
        """Write a certificate for the names, with its private key."""
        until = min(now + _CERTIFICATE_LIFE, self.certificate.not_valid_after_utc)
        usage = [ExtendedKeyUsageOID.SERVER_AUTH]
        write_whole(file, self._issued(names, usage, now, until), PRIVATE)

    def issue_for_peer(self, now: datetime) -> bytes:
        """A certificate, with its private key, for both ends of a connection."""
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        until = self.certificate.not_valid_after_utc
        return self._issued(["broker"], usage, now, until)

    def _issued(
        self,
        names: Iterable[str],
        usage: list[x509.ObjectIdentifier],
        now: datetime,
        until: datetime,
    ) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName(map(_general_name, sorted(names)))
        certificate = (
            _builder("twinbus", key, now, until)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(_key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(alternatives, critical=False)
            .add_extension(_issued_by(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _pem(certificate) + _pem_key(key)

    @property
    def public_pem(self) -> bytes:
        """What others must trust."""
        return _pem(self.certificate)


def authority_of(folder: Path, now: datetime) -> CertificateAuthority:
    """The folder's authority; created if it does not exist or expires soon.

    Raises ConfigError if it is damaged, OSError.
    """
    private_file, public_file = folder / "ca-key.pem", folder / "ca.pem"
    try:
        authority = _loaded(private_file)
    except FileNotFoundError:
        authority = None
    if authority is None or authority.certificate.not_valid_after_utc - now < _RENEWAL:
        authority = _make(private_file, now)
    public = _pem(authority.certificate)
    if not public_file.exists() or public_file.read_bytes() != public:
        write_whole(public_file, public, PUBLIC)
    return authority


def _loaded(file: Path) -> CertificateAuthority:
    pem = file.read_bytes()
    try:
        key = serialization.load_pem_private_key(pem, None)
        certificate = x509.load_pem_x509_certificate(pem)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(
            f"{file} is damaged. Restore it. Or remove it: then a new authority is "
            "made, which all clients have to trust."
        )
    return CertificateAuthority(certificate, key)


def authority_of_secret(secret: bytes, now: datetime) -> CertificateAuthority:
    """An authority that all who know the secret have, and nobody else: its private key
    is made from the secret."""
    derived = HKDF(hashes.SHA256(), _SCALAR_BYTES, None, _PURPOSE).derive(secret)
    # More bytes than the order of the curve has, so that all numbers are as likely.
    number = int.from_bytes(derived, "big") % (_CURVE_ORDER - 1) + 1
    key = ec.derive_private_key(number, ec.SECP256R1())
    return CertificateAuthority(_self_signed(key, now), key)


def _make(file: Path, now: datetime) -> CertificateAuthority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(key, now)
    write_whole(file, _pem(certificate) + _pem_key(key), PRIVATE)
    return CertificateAuthority(certificate, key)


def _self_signed(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    return (
        _builder(_AUTHORITY_NAME, key, now, now + _AUTHORITY_LIFE)
        .issuer_name(_named(_AUTHORITY_NAME))
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True), critical=True)
        .add_extension(_issued_by(key), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """The parts that all certificates have."""
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(until)
        .add_extension(identifier, critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _issued_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )

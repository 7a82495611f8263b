"""The files by which clients trust the authority, in all formats."""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from twinbus.config.config import Config
from twinbus.process import trust_files
from twinbus.process.certificates import (
    JAVA_PASSWORD,
    bundle_file,
    ca_file,
    java_file,
    tls_context,
)

NOW = 1_800_000_000_000


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(data=tmp_path / "data")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the machine's roots; it has one."""
    other = Config(data=tmp_path / "other")
    tls_context(other, NOW)
    file = tmp_path / "roots.crt"
    file.write_text("# roots\n" + ca_file(other).read_text())
    monkeypatch.setattr(trust_files, "MACHINE_ROOTS", (tmp_path / "none", file))
    return file


def of_bundle(config: Config) -> list[x509.Certificate]:
    context = ssl.create_default_context(cafile=bundle_file(config))
    return [x509.load_der_x509_certificate(der) for der in context.get_ca_certs(True)]


def of_java(config: Config) -> list[x509.Certificate]:
    content = java_file(config).read_bytes()
    store = pkcs12.load_pkcs12(content, JAVA_PASSWORD.encode())
    return [entry.certificate for entry in store.additional_certs]


def authority(config: Config) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ca_file(config).read_bytes())


def test_the_authority_comes_with_the_roots_of_the_machine(
    config: Config, machine: Path
) -> None:
    # Both files replace what a client trusts: without the roots it could reach nothing
    # but the bus any more.
    tls_context(config, NOW)
    root = authority(Config(data=machine.parent / "other"))
    wanted = {authority(config), root}
    assert set(of_bundle(config)) == wanted
    assert set(of_java(config)) == wanted


def test_a_machine_without_roots_has_the_authority_alone(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_files, "MACHINE_ROOTS", ())
    tls_context(config, NOW)
    assert of_bundle(config) == of_java(config) == [authority(config)]


def test_new_roots_of_the_machine_are_taken_at_the_next_start(
    config: Config, machine: Path, tmp_path: Path
) -> None:
    tls_context(config, NOW)
    third = Config(data=tmp_path / "third")
    tls_context(third, NOW)
    machine.write_bytes(machine.read_bytes() + ca_file(third).read_bytes())
    tls_context(config, NOW)
    assert authority(third) in of_bundle(config)
    assert authority(third) in of_java(config)


@pytest.mark.parametrize("name", ["trust.p12", "trust.pem"])
def test_a_lost_file_comes_back(config: Config, machine: Path, name: str) -> None:
    tls_context(config, NOW)
    (config.data / "tls" / name).unlink()
    tls_context(config, NOW)
    assert len(of_bundle(config)) == len(of_java(config)) == 2


def test_java_sees_trusted_certificates(config: Config, machine: Path) -> None:
    # A store of plain certificates, without the attribute of Java's, looks empty to it.
    tls_context(config, NOW)
    listed = subprocess.run(
        [
            *("keytool", "-list", "-keystore", java_file(config)),
            *("-storepass", JAVA_PASSWORD),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert listed.count("trustedCertEntry") == 2
    assert "twinbus, " in listed

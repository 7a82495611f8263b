"""The local authority: what it creates, keeps, renews and refuses."""

import os
import ssl
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from twinbus.config.config import Config, ConfigError
from twinbus.process.certificates import ca_file, name_port, tls_context

NOW = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(data=tmp_path / "data", host="bus.example")


def server_certificate(config: Config) -> x509.Certificate:
    file = config.data / "tls" / "server.pem"
    return x509.load_pem_x509_certificate(file.read_bytes())


def names(config: Config) -> set[str]:
    extension = server_certificate(config).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(name.value) for name in extension.value}


def handshake(config: Config, server: ssl.SSLContext, host: str) -> None:
    """A client that trusts the authority meets the server, without a network."""
    trusting = ssl.create_default_context(cafile=ca_file(config))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client_side.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "bus.example"])
def test_clients_that_trust_the_authority_trust_the_server(
    config: Config, host: str
) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    handshake(config, tls_context(config, now), host)


def test_a_client_that_asks_for_another_name_is_warned(config: Config) -> None:
    context = tls_context(config, int(datetime.now(UTC).timestamp() * 1000))
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        handshake(config, context, "elsewhere.example")


def test_old_protocols_are_not_spoken(config: Config) -> None:
    context = tls_context(config, NOW)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_private_keys_are_readable_by_the_owner_alone(config: Config) -> None:
    tls_context(config, NOW)
    folder = config.data / "tls"
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {
        **{"ca.pem": 0o644, "trust.pem": 0o644, "trust.p12": 0o644},
        **{"ca-key.pem": 0o600, "server.pem": 0o600},
    }
    assert stat.S_IMODE(config.data.stat().st_mode) == 0o700


def test_the_public_file_has_no_private_key(config: Config) -> None:
    tls_context(config, NOW)
    assert b"PRIVATE" not in ca_file(config).read_bytes()


def test_the_next_start_changes_nothing(config: Config) -> None:
    tls_context(config, NOW)
    before = {f: f.read_bytes() for f in (config.data / "tls").iterdir()}
    tls_context(config, NOW + DAY_MS)
    assert {f: f.read_bytes() for f in (config.data / "tls").iterdir()} == before


def test_a_certificate_near_its_end_is_renewed_under_the_same_authority(
    config: Config,
) -> None:
    tls_context(config, NOW)
    authority, old = ca_file(config).read_bytes(), server_certificate(config)
    tls_context(config, NOW + 800 * DAY_MS)
    new = server_certificate(config)
    assert new.not_valid_after_utc > old.not_valid_after_utc
    assert ca_file(config).read_bytes() == authority


def test_an_authority_near_its_end_is_replaced(config: Config) -> None:
    tls_context(config, NOW)
    authority = ca_file(config).read_bytes()
    tls_context(config, NOW + 3_600 * DAY_MS)
    assert ca_file(config).read_bytes() != authority
    new = x509.load_pem_x509_certificate(ca_file(config).read_bytes())
    server_certificate(config).verify_directly_issued_by(new)


def test_a_certificate_never_outlives_its_authority(config: Config) -> None:
    tls_context(config, NOW)
    tls_context(config, NOW + 3_400 * DAY_MS)
    authority = x509.load_pem_x509_certificate(ca_file(config).read_bytes())
    server = server_certificate(config)
    assert server.not_valid_after_utc == authority.not_valid_after_utc


def test_another_host_gets_a_certificate_with_its_name(config: Config) -> None:
    tls_context(config, NOW)
    authority = ca_file(config).read_bytes()
    moved = Config(data=config.data, host="10.1.2.3")
    tls_context(moved, NOW)
    assert {"10.1.2.3", "localhost", "127.0.0.1", "::1"} <= names(moved)
    assert ca_file(config).read_bytes() == authority


def test_every_name_is_there_with_every_port(config: Config) -> None:
    # Go asks for the name `localhost:5671` if its Endpoint has the port.
    tls_context(replace(config, http_port=443), NOW)
    for host in ("localhost", "127.0.0.1", "[::1]", "bus.example"):
        assert {f"{host}:5672", f"{host}:443", f"{host}:5671"} <= names(config)
    assert not {name for name in names(config) if name.endswith(":5300")}


def test_another_port_gets_a_certificate_with_its_name(config: Config) -> None:
    tls_context(config, NOW)
    authority = ca_file(config).read_bytes()
    tls_context(replace(config, tls_port=15671), NOW)
    assert "localhost:15671" in names(config)
    assert ca_file(config).read_bytes() == authority


def test_a_port_that_is_found_at_the_start_is_named_then(config: Config) -> None:
    anywhere = replace(config, port=0, http_port=0, tls_port=5671)
    now = int(datetime.now(UTC).timestamp() * 1000)
    context = tls_context(anywhere, now)
    assert "localhost:0" not in names(config)
    name_port(context, anywhere, 34567, now)
    assert {"localhost:34567", "localhost:5671"} <= names(config)
    # The context shows the new certificate to those who come from now on.
    handshake(config, context, "localhost:34567")


def test_a_wildcard_is_no_name(config: Config) -> None:
    everywhere = Config(data=config.data, host="0.0.0.0")
    tls_context(everywhere, NOW)
    assert "0.0.0.0" not in names(everywhere)


def test_a_damaged_certificate_is_made_again(config: Config) -> None:
    tls_context(config, NOW)
    (config.data / "tls" / "server.pem").write_text("nonsense")
    tls_context(config, NOW)
    assert "localhost" in names(config)


def test_a_damaged_authority_is_not_replaced(config: Config) -> None:
    tls_context(config, NOW)
    file = config.data / "tls" / "ca-key.pem"
    file.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"ca-key.pem is damaged. Restore it"):
        tls_context(config, NOW)
    assert file.read_text() == "nonsense"


def test_a_lost_public_file_comes_back(config: Config) -> None:
    tls_context(config, NOW)
    authority = ca_file(config).read_bytes()
    ca_file(config).unlink()
    tls_context(config, NOW)
    assert ca_file(config).read_bytes() == authority


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path}/file/data.*Not a directory"):
        tls_context(Config(data=tmp_path / "file" / "data"), NOW)


def test_a_certificate_that_is_brought_is_used(config: Config, tmp_path: Path) -> None:
    tls_context(config, NOW)
    brought = config.data / "tls" / "server.pem"
    other = tmp_path / "other"
    tls_context(Config(data=other, tls_cert=str(brought)), NOW)
    tls_context(Config(data=other, tls_cert=str(brought), tls_key=str(brought)), NOW)
    assert not other.exists()


def test_a_brought_certificate_that_is_no_good_is_named(
    config: Config, tmp_path: Path
) -> None:
    tls_context(config, NOW)
    folder = config.data / "tls"
    missing, key = str(tmp_path / "none.pem"), str(folder / "ca-key.pem")
    with pytest.raises(ConfigError, match=r"none.pem can't be read: No such file"):
        tls_context(Config(tls_cert=missing), NOW)
    with pytest.raises(ConfigError, match=r"none.pem can't be read: No such file"):
        tls_context(Config(tls_cert=key, tls_key=missing), NOW)
    with pytest.raises(ConfigError, match=r"server.pem can't be used for TLS"):
        tls_context(Config(tls_cert=str(folder / "server.pem"), tls_key=key), NOW)
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(os.urandom(100))
    with pytest.raises(ConfigError, match=r"garbage.pem can't be used for TLS"):
        tls_context(Config(tls_cert=str(garbage)), NOW)

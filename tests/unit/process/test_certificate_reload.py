"""A new certificate is taken into use while the server runs, or the old one stays."""

import logging
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from twinbus.config.config import Config
from twinbus.process.certificate_reload import CertificateReload
from twinbus.process.certificates import expiry_warning, tls_context

DAY_MS = 86_400_000


class Clock:
    """The real time at first: certificates are checked against it."""

    def __init__(self) -> None:
        self.at = int(datetime.now(UTC).timestamp() * 1000)

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


class Holder:
    """A server, as far as its certificate goes."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls


def made(folder: Path, name: str, clock: Clock) -> bytes:
    """A certificate with its key, of an authority of its own."""
    config = Config(data=folder / name)
    tls_context(config, clock.now())
    return (config.data / "tls" / "server.pem").read_bytes()


class World:
    """A server with a certificate that was given."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.file = Clock(), folder / "given.pem"
        self.first, self.second = (
            made(folder, name, self.clock) for name in ("first", "second")
        )
        self.file.write_bytes(self.first)
        self.config = Config(data=folder / "data", tls_cert=str(self.file))
        self.holder = Holder(tls_context(self.config, self.clock.now()))
        self.reload = CertificateReload(self.holder, self.config, self.clock)

    def write(self, content: bytes) -> None:
        """As programs that renew certificates do: another file takes the place."""
        beside = self.file.with_suffix(".new")
        beside.write_bytes(content)
        beside.rename(self.file)

    @property
    def shown(self) -> bytes:
        """The certificate that a client gets."""
        assert self.holder.tls is not None
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        sides = (
            client.wrap_bio(to_client, to_server),
            self.holder.tls.wrap_bio(to_server, to_client, server_side=True),
        )
        for side in sides * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        shown = sides[0].getpeercert(binary_form=True)
        assert shown is not None
        return ssl.DER_cert_to_PEM_cert(shown).strip().encode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_changed_file_is_in_use_after_a_quiet_moment(world: World) -> None:
    world.reload.look()
    assert world.shown in world.first
    world.write(world.second)
    world.reload.look()
    assert world.shown in world.first
    world.reload.look()
    assert world.shown in world.second


def test_unchanged_file_is_not_read_again(world: World) -> None:
    before = world.holder.tls
    for _ in range(3):
        world.reload.look()
    assert world.holder.tls is before


def test_request_reads_the_file_at_once(world: World) -> None:
    world.write(world.second)
    world.reload.reload()
    assert world.shown in world.second
    after = world.holder.tls
    world.reload.look()
    world.reload.look()
    assert world.holder.tls is after


def test_useless_file_is_named_and_the_old_certificate_stays(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for content in (b"no certificate", b""):
        caplog.clear()
        world.write(content)
        world.reload.look()
        world.reload.look()
        assert world.shown in world.first
        assert str(world.file) in caplog.text and "PEM" in caplog.text
        caplog.clear()
        world.reload.look()
        assert caplog.text == ""
    world.write(world.second)
    world.reload.look()
    world.reload.look()
    assert world.shown in world.second


def test_missing_file_is_named(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.file.unlink()
    world.reload.reload()
    assert f"{world.file} can't be read" in caplog.text
    assert world.shown in world.first


def test_key_that_follows_its_certificate_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    key = tmp_path / "key.pem"
    key.write_bytes(world.first)
    config = Config(data=tmp_path, tls_cert=str(world.file), tls_key=str(key))
    reload = CertificateReload(world.holder, config, world.clock)
    world.write(world.second)
    reload.look()
    key.write_bytes(world.second)
    os.utime(key, (1, 1))
    reload.look()
    reload.look()
    assert world.shown in world.second
    assert "kept" not in caplog.text


def test_own_certificate_is_renewed_before_it_ends(tmp_path: Path) -> None:
    clock = Clock()
    config = Config(data=tmp_path / "data")
    holder = Holder(tls_context(config, clock.now()))
    file = config.data / "tls" / "server.pem"
    before = file.read_bytes()
    reload = CertificateReload(holder, config, clock)
    for _ in range(3):
        clock.at += DAY_MS
        reload.look()
        reload.look()
    assert file.read_bytes() == before
    clock.at += 3_000 * DAY_MS
    reload.look()
    reload.look()
    assert file.read_bytes() != before


def test_request_without_tls_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    holder = Holder(None)
    CertificateReload(holder, Config(data=tmp_path), Clock()).reload()
    assert holder.tls is None
    assert "tls_port" in caplog.text


def test_certificate_that_ends_soon_is_warned_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert expiry_warning(world.config, world.clock.now()) is None
    world.clock.at += 3_000 * DAY_MS
    warning = expiry_warning(world.config, world.clock.now())
    assert warning is not None and "ended on" in warning and str(world.file) in warning
    with caplog.at_level(logging.WARNING):
        world.reload.reload()
    assert warning in caplog.text

"""TLS for users: on by default, and trusted after following the printed steps."""

import contextlib
import http.client
import re
import signal
import socket
import ssl
import time
from pathlib import Path

import pytest

from bench.free_port import free_port
from twinbus.amqp.messaging import Data, Message, decode_message, encode_message
from twinbus.amqp.sasl import plain
from twinbus.cli import exit_codes
from twinbus.client import connect
from twinbus.clock import SystemClock
from twinbus.config.config import Config
from twinbus.process.certificates import tls_context

from .command import PATIENCE_SECONDS, Serving, run

_DEFAULT_TLS_PORT = 5671

# Listens where it is free, and for HTTP at no other port.
FREE = ("--port", "0", "--http-port", "0")


def get_health(port: int, authority: Path | None = None) -> int:
    """The status of a health check, over TLS if somebody is to be trusted for it."""
    if authority is None:
        connection = http.client.HTTPConnection("localhost", port, PATIENCE_SECONDS)
    else:
        connection = http.client.HTTPSConnection(
            "localhost",
            port,
            timeout=PATIENCE_SECONDS,
            context=ssl.create_default_context(cafile=authority),
        )
    with contextlib.closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status


def without_emulator(server: Serving, tls_port: int) -> str:
    """The connection string as the printed instructions have it."""
    text = server.connection_string.replace("UseDevelopmentEmulator=true;", "")
    return text.replace(f":{server.port};", f":{tls_port};")


async def test_messages_go_over_tls_by_what_the_printed_lines_say(
    tmp_path: Path,
) -> None:
    # The SDK takes no TLS port but 5671, so this is our own client.
    (tmp_path / "bus.toml").write_text("[queues.orders]\n")
    port = free_port()
    flags = ("--config", "bus.toml", *FREE, "--tls-port", str(port))
    with Serving(*flags, cwd=tmp_path) as server:
        printed = re.search(r'connection_verify="(.+)"', "\n".join(server.lines))
        assert printed is not None
        connection = await connect(
            "localhost",
            port,
            ssl=ssl.create_default_context(cafile=printed[1]),
            sasl=plain("RootManageSharedAccessKey", server.key),
        )
        async with connection:
            sender = await connection.sender("orders")
            payload = encode_message(Message(body=Data((b"secret",))))
            await sender.send(payload)
            receiver = await connection.receiver("orders")
            (received,) = await receiver.receive_batch(
                1, timeout_seconds=PATIENCE_SECONDS
            )
            assert decode_message(received.payload).body == Data((b"secret",))


def test_commands_trust_the_authority_of_the_environment(tmp_path: Path) -> None:
    port = free_port()
    with Serving(*FREE, "--tls-port", str(port), cwd=tmp_path) as server:
        listing = ("entities", "list", "--json", "--connection-string")
        text = without_emulator(server, port)
        trusting = {"SSL_CERT_FILE": str(tmp_path / "data" / "tls" / "ca.pem")}
        trusted = run(*listing, text, cwd=tmp_path, env=trusting)
        assert (trusted.returncode, trusted.stdout) == (exit_codes.OK, "[]\n")
        refused = run(*listing, text, cwd=tmp_path)
        assert refused.returncode == exit_codes.UNREACHABLE
        assert "can't be trusted" in refused.stderr
        assert "SSL_CERT_FILE" in refused.stderr
        assert "certificate" in refused.stderr


def test_authority_of_a_context_counts_before_that_of_the_environment(
    tmp_path: Path,
) -> None:
    port = free_port()
    with Serving(*FREE, "--tls-port", str(port), cwd=tmp_path) as server:
        known = {
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            # As many machines have it, for all programs.
            "SSL_CERT_FILE": ssl.get_default_verify_paths().openssl_cafile,
        }
        text = without_emulator(server, port)
        added = ("context", "add", "here", text, "--ca-file", "data/tls/ca.pem")
        assert run(*added, cwd=tmp_path, env=known).returncode == exit_codes.OK
        for words in (("entities", "list"), ("namespaces", "list"), ("stats",)):
            done = run(*words, cwd=tmp_path, env=known)
            assert done.returncode == exit_codes.OK, done.stderr


def test_tls_where_there_is_none_is_told(tmp_path: Path) -> None:
    with Serving(*FREE, "--tls-port", "0", cwd=tmp_path) as server:
        text = without_emulator(server, server.port)
        for words in (("peek", "q"), ("entities", "list"), ("namespaces", "list")):
            done = run(*words, "--connection-string", text, cwd=tmp_path)
            assert done.returncode == exit_codes.UNREACHABLE
            assert "TLS" in done.stderr


def test_a_certificate_that_is_brought_is_shown_to_clients(tmp_path: Path) -> None:
    port = free_port()
    flags = (*FREE, "--tls-port", str(port))
    with Serving(*flags, cwd=tmp_path) as server:
        server.stop()
    brought = tmp_path / "brought.pem"
    (tmp_path / "data" / "tls" / "server.pem").rename(brought)
    (tmp_path / "data" / "tls" / "ca.pem").rename(tmp_path / "trusted.pem")
    with Serving(*flags, "--tls-cert", brought, cwd=tmp_path):
        context = ssl.create_default_context(cafile=tmp_path / "trusted.pem")
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as tcp,
            context.wrap_socket(tcp, server_hostname="localhost") as tls,
        ):
            assert tls.version() == "TLSv1.3"
    assert not (tmp_path / "data" / "tls" / "server.pem").exists()


def test_a_taken_default_port_is_no_reason_not_to_start(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        # Where this fails the port is taken already, which is as good.
        with contextlib.suppress(OSError):
            address = ("127.0.0.1", _DEFAULT_TLS_PORT)
            stack.enter_context(socket.create_server(address))
        server = stack.enter_context(Serving(*FREE, cwd=tmp_path))
        (line,) = server.errors.splitlines()
        note = f"twinbus: note: port {server.port} serves everything alone. Port 5671"
        assert line.startswith(f"{note} is in use")
        assert "--tls-port" in line
        # TLS is spoken all the same.
        assert get_health(server.port, tmp_path / "data" / "tls" / "ca.pem") == 200


def test_every_port_serves_everything(tmp_path: Path) -> None:
    http_port, tls_port = free_port(), free_port()
    flags = ("--http-port", str(http_port), "--tls-port", str(tls_port))
    with Serving("--port", "0", *flags, cwd=tmp_path) as server:
        authority = tmp_path / "data" / "tls" / "ca.pem"
        for port in (server.port, http_port, tls_port):
            assert get_health(port) == 200
            assert get_health(port, authority) == 200
            text = server.connection_string.replace(f":{server.port};", f":{port};")
            listing = ("entities", "list", "--connection-string", text)
            assert run(*listing, cwd=tmp_path).returncode == exit_codes.OK
        assert server.stop() == exit_codes.OK


def test_the_certificate_is_for_the_name_with_the_port_too(tmp_path: Path) -> None:
    """Go's SDK asks for it under that name."""
    tls_port = free_port()
    with Serving(*FREE, "--tls-port", str(tls_port), cwd=tmp_path) as server:
        authority = tmp_path / "data" / "tls" / "ca.pem"
        context = ssl.create_default_context(cafile=authority)
        for port in (server.port, tls_port):
            with (
                socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as tcp,
                context.wrap_socket(tcp, server_hostname=f"localhost:{port}") as tls,
            ):
                assert tls.version() == "TLSv1.3"


def test_one_port_is_enough(tmp_path: Path) -> None:
    port = str(free_port())
    flags = ("--port", port, "--http-port", port, "--tls-port", port)
    with Serving(*flags, cwd=tmp_path) as server:
        assert server.errors == ""
        assert get_health(server.port, tmp_path / "data" / "tls" / "ca.pem") == 200


def test_tls_can_be_switched_off(tmp_path: Path) -> None:
    with Serving(*FREE, "--tls-port", "0", cwd=tmp_path) as server:
        assert get_health(server.port) == 200
        with (
            socket.create_connection(("127.0.0.1", server.port)) as stranger,
            pytest.raises(OSError),
        ):
            ssl.create_default_context().wrap_socket(
                stranger, server_hostname="localhost"
            )
    assert not (tmp_path / "data" / "tls").exists()


def shown_certificate(port: int) -> str:
    """The certificate of the server, as PEM."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def shows(port: int, pem: str) -> bool:
    """Whether it is this one, at the latest after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while shown_certificate(port).strip() not in pem:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def made_certificates(folder: Path, *names: str) -> list[str]:
    """Each with its key, and an authority of its own."""
    found = []
    for name in names:
        data = folder / name
        tls_context(Config(data=data), SystemClock().now())
        found.append((data / "tls" / "server.pem").read_text())
    return found


def test_new_certificate_is_in_use_without_a_restart(tmp_path: Path) -> None:
    first, second, third = made_certificates(tmp_path, "1", "2", "3")
    brought, port = tmp_path / "brought.pem", free_port()
    brought.write_text(first)
    flags = (*FREE, "--tls-port", str(port), "--tls-cert", brought)
    with Serving(*flags, cwd=tmp_path) as server:
        assert shows(port, first)
        # The file has changed.
        brought.write_text(second)
        assert shows(port, second)
        # Somebody asks for it; a useless file changes nothing.
        brought.write_text("no certificate")
        server.signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "is kept" not in server.errors:
            assert time.monotonic() < deadline, server.errors
            time.sleep(0.05)
        assert str(brought) in server.errors
        assert shows(port, second)
        brought.write_text(third)
        server.signal(signal.SIGHUP)
        assert shows(port, third)

"""`twinbus serve` if it cannot start: one line that says what to do, and a code."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.free_port import free_port
from twinbus.cli import exit_codes

from .command import Serving, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")

# Not even the superuser can make files in it.
UNWRITABLE = Path("/sys")


def refusal(*arguments: str | Path, cwd: Path, code: int) -> str:
    """The one line with which `serve` refuses to start."""
    ended = run("serve", *arguments, cwd=cwd)
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == code, line
    assert line.startswith("twinbus: ")
    return line


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use(tmp_path: Path, taken_port: int) -> None:
    flags = ("--port", str(taken_port), "--http-port", "0", "--tls-port", "0")
    line = refusal(*flags, cwd=tmp_path, code=exit_codes.PORT)
    assert f"Port {taken_port} is in use" in line
    assert "choose another port with --port" in line


@pytest.mark.parametrize("flag", ["--http-port", "--tls-port"])
def test_a_further_port_in_use_that_was_asked_for(
    tmp_path: Path, taken_port: int, flag: str
) -> None:
    flags = (*FREE, flag, str(taken_port))
    line = refusal(*flags, cwd=tmp_path, code=exit_codes.PORT)
    assert f"Port {taken_port} is in use" in line
    assert f"choose another port with {flag}" in line


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_of_another_machine(tmp_path: Path, host: str) -> None:
    line = refusal("--host", host, *FREE, cwd=tmp_path, code=exit_codes.PORT)
    assert f"{host} is no address of this machine" in line
    assert "--host" in line


def test_a_data_folder_in_use(tmp_path: Path) -> None:
    with Serving(*FREE, cwd=tmp_path) as server:
        line = refusal(*FREE, cwd=tmp_path, code=exit_codes.IN_USE)
        assert f"in use by process {server.pid}" in line
        assert "--data" in line
        assert server.stop() == exit_codes.OK


@pytest.mark.parametrize("name", ["messages.sqlite3", "catalog.sqlite3"])
def test_a_damaged_file(tmp_path: Path, name: str) -> None:
    with Serving(*FREE, cwd=tmp_path) as server:
        server.stop()
    file = tmp_path / "data" / name
    file.write_bytes(b"\xa5" * file.stat().st_size)
    line = refusal(*FREE, cwd=tmp_path, code=exit_codes.UNREADABLE)
    assert f"data/{name}" in line


def test_a_key_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "data" / "root-key").mkdir(parents=True)
    line = refusal(*FREE, cwd=tmp_path, code=exit_codes.USAGE)
    assert "data/root-key: Is a directory" in line
    assert "--key" in line


@pytest.mark.parametrize("has_tls", [True, False])
def test_a_data_folder_that_cannot_be_made(tmp_path: Path, has_tls: bool) -> None:
    (tmp_path / "file").touch()
    tls_port = str(free_port()) if has_tls else "0"
    flags = (*FREE, "--data", "file/data", "--tls-port", tls_port)
    line = refusal(*flags, cwd=tmp_path, code=exit_codes.USAGE)
    assert "file/data" in line
    assert "--data" in line


@pytest.mark.skipif(not UNWRITABLE.is_dir(), reason="Linux has such a folder")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    flags = ("--data", UNWRITABLE, *FREE)
    line = refusal(*flags, cwd=tmp_path, code=exit_codes.UNREADABLE)
    assert f"The data folder {UNWRITABLE} can't be used: " in line
    assert "--data" in line
    store = ("--store", f"sqlite:///{UNWRITABLE}/messages.sqlite3")
    line = refusal(*store, *FREE, cwd=tmp_path, code=exit_codes.UNREADABLE)
    assert f"{UNWRITABLE}/messages.sqlite3 could not be opened" in line


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--port", "many"), "--port: 'many' is not a whole number"),
        (("--log-level", "loud"), "--log-level: 'loud' is none of debug, info"),
        (("--store", "tape:"), "no store of the kind 'tape'"),
        (("--prot", "1"), "No such option: --prot"),
        (("--config", "none.toml"), "none.toml: No such file or directory"),
        (("--tls-key", "key.pem"), "tls_key is given and tls_cert is not"),
        (("surplus",), "unexpected extra argument"),
    ],
)
def test_a_wrong_flag(tmp_path: Path, flags: tuple[str, ...], complaint: str) -> None:
    line = refusal(*FREE, *flags, cwd=tmp_path, code=exit_codes.USAGE)
    assert complaint in line


def test_a_mistake_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text("[queues.orders]\nlock_duration = '9h'\n")
    line = refusal("--config", file, *FREE, cwd=tmp_path, code=exit_codes.USAGE)
    assert f"{file}: queue 'orders'" in line
    assert "must be from 5000 ms to 300000 ms" in line


def test_a_wrong_variable(tmp_path: Path) -> None:
    ended = run("serve", cwd=tmp_path, env={"TWINBUS_PORT": "tcp://10.0.0.1:5672"})
    assert ended.returncode == exit_codes.USAGE
    assert "TWINBUS_PORT: 'tcp://10.0.0.1:5672' is not a whole number" in ended.stderr

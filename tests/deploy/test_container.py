"""The container file and what it starts: read as a linter would, and run without an
engine as far as that goes. With an engine the image is built and run."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from bench.free_port import free_port
from twinbus.config.settings import SETTINGS, VARIABLE_PREFIX

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
ENTRYPOINT = ROOT / "deploy" / "entrypoint.sh"
EMULATOR_CONFIG = ROOT / "examples" / "emulator" / "Config.json"
COMPOSE = sorted((ROOT / "deploy").glob("compose*.yaml"))
PATIENCE_SECONDS = 100.0

EMULATOR = {
    "ACCEPT_EULA": "Y",
    "SQL_SERVER": "sqlserver",
    "MSSQL_SA_PASSWORD": "Strong-1",
    "SQL_WAIT_INTERVAL": "15",
}
"""Variables that compose files of the emulator have, and twinbus does not."""


def instructions() -> list[tuple[str, str]]:
    """Of the container file: words and arguments, with continued lines joined."""
    text = re.sub(r"(?m)^\s*#.*\n", "", CONTAINERFILE.read_text())
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


# --- as a linter ----------------------------------------------------------------------


def test_images_have_a_version_and_the_last_stage_no_compiler() -> None:
    assert all(re.match(r"[\w/.-]+:\S*\$\{PYTHON\}-slim", one) for one in of("FROM"))
    assert "latest" not in CONTAINERFILE.read_text()
    words = [word for word, _ in instructions()]
    last = instructions()[len(words) - 1 - words[::-1].index("FROM") :]
    assert not any("apt-get" in rest or "pip" in rest for _, rest in last)


def test_it_does_not_run_as_root() -> None:
    (user,) = of("USER")
    assert int(user) > 0
    assert f"--uid {user}" in "".join(of("RUN"))


def test_packages_leave_no_caches() -> None:
    for command in of("RUN"):
        if "apt-get install" in command:
            assert "--no-install-recommends" in command
            assert "rm -rf /var/lib/apt/lists" in command
        if "pip install" in command:
            assert "--no-cache-dir" in command
    assert of("ADD") == []


def test_what_runs_gets_the_signals() -> None:
    for word in ("ENTRYPOINT", "CMD"):
        (command,) = of(word)
        assert isinstance(json.loads(command), list)
    assert of("STOPSIGNAL") == ["SIGTERM"]
    assert ENTRYPOINT.read_text().rstrip().endswith('exec twinbus "$@"')
    (check,) = of("HEALTHCHECK")
    assert json.loads(check.partition("CMD ")[2])[-1] == "healthy"


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".containerignore").read_text()
    assert (ROOT / ".dockerignore").read_text() == ignored
    kept = [line[1:] for line in ignored.splitlines() if line.startswith("!")]
    for arguments in of("COPY"):
        if "--from=" in arguments:
            continue
        *sources, _ = [one for one in arguments.split() if not one.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in kept, source
    for path in kept:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "file", [CONTAINERFILE, ENTRYPOINT, *COMPOSE], ids=lambda file: file.name
)
def test_settings_that_are_named_exist(file: Path) -> None:
    known = {f"{VARIABLE_PREFIX}{name.upper()}" for name in SETTINGS}
    named = set(re.findall(r"\bTWINBUS_[A-Z_]+", file.read_text()))
    assert named - {"TWINBUS_", "TWINBUS_CONFIG"} <= known


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_compose_files_build_from_here(file: Path) -> None:
    text = file.read_text()
    (context,) = re.findall(r"context: (\S+)", text)
    (named,) = re.findall(r"dockerfile: (\S+)", text)
    assert (file.parent / context / named).resolve() == CONTAINERFILE
    assert "\t" not in text


# --- without an engine ----------------------------------------------------------------


@contextmanager
def started(folder: Path, extra: dict[str, str]) -> Iterator[dict[str, str]]:
    """What the image runs, with `twinbus` of here. Gives its environment."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "twinbus").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m twinbus "$@"\n'
    )
    (programs / "twinbus").chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    port = str(free_port())
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
        "TWINBUS_PURE": os.environ.get("TWINBUS_PURE", ""),
        "TWINBUS_DATA": str(folder / "data"),
        "TWINBUS_PORT": port,
        "TWINBUS_TLS_PORT": "0",
        **extra,
    }
    process = subprocess.Popen(
        [ENTRYPOINT],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, "ready\n"))
        assert process.poll() is None, lines
        yield environment
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def is_healthy(environment: dict[str, str]) -> bool:
    checked = subprocess.run(
        [ENTRYPOINT, "healthy"], env=environment, capture_output=True
    )
    return checked.returncode == 0


def test_compose_file_of_the_emulator_finds_a_bus(tmp_path: Path) -> None:
    http_port = free_port()
    extra = {
        **EMULATOR,
        "EMULATOR_CONFIG": str(EMULATOR_CONFIG),
        "EMULATOR_HTTP_PORT": str(http_port),
    }
    with started(tmp_path, extra) as environment:
        assert is_healthy(environment)
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/health") as answer:
            assert answer.status == 200
        with (
            sdk(int(environment["TWINBUS_PORT"])) as client,
            client.get_queue_sender("orders") as sender,
            client.get_queue_receiver("orders") as receiver,
        ):
            sender.send_messages(ServiceBusMessage("hello", message_id="1"))
            sender.send_messages(ServiceBusMessage("again", message_id="1"))
            (message,) = receiver.receive_messages(2, max_wait_time=5)
            receiver.complete_message(message)
    assert str(message) == "hello"
    assert not is_healthy(environment)


def test_container_without_that_file_has_a_key_of_its_own(tmp_path: Path) -> None:
    extra = {"EMULATOR_CONFIG": str(tmp_path / "missing"), "TWINBUS_HTTP_PORT": "0"}
    with started(tmp_path, extra) as environment:
        assert is_healthy(environment)
        asked = subprocess.run(
            [ENTRYPOINT, "connection-string"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert asked.returncode == 0, asked.stderr
    assert "SAS_KEY_VALUE" not in asked.stdout
    assert (tmp_path / "data" / "root-key").read_text().strip() in asked.stdout


# --- with an engine -------------------------------------------------------------------


def engine() -> str:
    """The container engine that answers. Skips the test where there is none."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True).returncode
        ):
            return name
    pytest.skip("no container engine runs here (docker, podman)")


HARDENED = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges"),
)
"""As compose.yaml runs it."""


@pytest.mark.timeout(1800)
def test_image_is_built_and_serves() -> None:
    program = engine()
    if not os.environ.get("TWINBUS_TEST_CONTAINER"):
        pytest.skip("builds an image for minutes: TWINBUS_TEST_CONTAINER=1 runs it")
    tag = f"twinbus-test-{secrets.token_hex(4)}"
    port = free_port()

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    # Podman's own format of images has no health check.
    extra = ("--format", "docker") if program == "podman" else ()
    run("build", *extra, "--tag", tag, "--file", str(CONTAINERFILE), ".")
    mounted = f"{EMULATOR_CONFIG}:/ServiceBus_Emulator/ConfigFiles/Config.json:ro"
    published = f"127.0.0.1:{port}:5672"
    flags = (*HARDENED, "--volume", mounted, "--volume", f"{tag}:/var/lib/twinbus")
    started = ("run", "--detach", "--publish", published, *flags, tag)
    containers: list[str] = []
    try:
        containers.append(run(*started))
        check = run("inspect", "--format", "{{.Config.Healthcheck}}", containers[0])
        assert "healthy" in check
        wait_until_healthy(program, containers[0])
        assert run("exec", containers[0], "id", "--user") == "10001"
        with sdk(port) as client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        run("stop", containers[0])
        assert run("inspect", "--format", "{{.State.ExitCode}}", containers[0]) == "0"
        run("rm", containers[0])
        # What was sent is in the volume.
        containers.append(run(*started))
        wait_until_healthy(program, containers[1])
        with sdk(port) as client, client.get_queue_receiver("orders") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=5)
            receiver.complete_message(message)
        assert str(message) == "hello"
    finally:
        for container in containers:
            subprocess.run([program, "rm", "--force", container], capture_output=True)
        subprocess.run([program, "volume", "rm", tag], capture_output=True)
        subprocess.run([program, "rmi", "--force", tag], capture_output=True)


def wait_until_healthy(program: str, container: str) -> None:
    """Its own check, in the container, until it is well."""
    asked = [program, "exec", container, "twinbus-entrypoint", "healthy"]
    until = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(asked, capture_output=True).returncode:
        log = [program, "logs", container]
        assert time.monotonic() < until, subprocess.run(log, capture_output=True)


def sdk(port: int) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        f"Endpoint=sb://localhost:{port};"
        "SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )

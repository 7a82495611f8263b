"""`twinbus env`: its output is what clients need."""

import json
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from bench.free_port import free_port
from twinbus.cli import exit_codes

from .command import PATIENCE_SECONDS, Serving, environment, run
from .test_tls import FREE

TRUST = {"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}
STRINGS = {"SERVICEBUS_CONNECTION_STRING", "TWINBUS_CONNECTION_STRING"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a bus was; a space is in its name, and a quote."""
    folder = tmp_path_factory.mktemp("a bus's")
    with Serving(*FREE, "--tls-port", str(free_port()), cwd=folder) as server:
        server.stop()
    return folder


def test_a_shell_that_runs_it_has_the_variables(served: Path) -> None:
    told = run("env", cwd=served)
    assert (told.returncode, told.stderr) == (exit_codes.OK, "")
    script = f'{told.stdout}\nprintf %s "$SSL_CERT_FILE|$SERVICEBUS_CONNECTION_STRING"'
    shell = shutil.which("sh")
    assert shell is not None
    seen = subprocess.run(
        [shell, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    bundle, text = seen.split("|")
    assert bundle == str(served / "data" / "tls" / "trust.pem")
    key = (served / "data" / "root-key").read_text().strip()
    assert text.startswith("Endpoint=sb://localhost:5672;")
    assert f"SharedAccessKey={key};" in text
    assert "UseDevelopmentEmulator" not in text


def test_the_variables_are_enough_for_our_own_commands(tmp_path: Path) -> None:
    with Serving(*FREE, "--tls-port", str(free_port()), cwd=tmp_path) as server:
        (line,) = (line for line in server.lines if "twinbus env" in line)
        # As printed, with the port that was found.
        assert f'eval "$(twinbus env --port {server.port})"' in line
        told = run("env", "--port", str(server.port), "--json", cwd=tmp_path)
        variables = json.loads(told.stdout)
        assert set(variables) == {*TRUST, *STRINGS, "JAVA_TOOL_OPTIONS"}
        listed = run("entities", "list", "--json", cwd=tmp_path, env=variables)
        assert (listed.returncode, listed.stdout) == (exit_codes.OK, "[]\n")


def test_what_replaces_the_usual_roots_holds_them_too(served: Path) -> None:
    variables = json.loads(run("env", "--json", cwd=served).stdout)
    machine = ssl.create_default_context()
    ours = ssl.create_default_context(cafile=variables["SSL_CERT_FILE"])
    assert ours.cert_store_stats()["x509_ca"] >= machine.cert_store_stats()["x509_ca"]
    assert {variables[name] for name in TRUST} == {variables["SSL_CERT_FILE"]}


def test_options_of_java_are_kept_and_its_store_is_named_once(served: Path) -> None:
    present = {"JAVA_TOOL_OPTIONS": "-Xmx1g '-Dname=two words'"}
    first = json.loads(run("env", "--json", cwd=served, env=present).stdout)
    store = served / "data" / "tls" / "trust.p12"
    wanted = (
        f'-Xmx1g "-Dname=two words" "-Djavax.net.ssl.trustStore={store}" '
        "-Djavax.net.ssl.trustStorePassword=changeit"
    )
    assert first["JAVA_TOOL_OPTIONS"] == wanted
    again = run("env", "--json", cwd=served, env=first)
    assert json.loads(again.stdout) == first
    assert again.stderr == ""


def test_java_reads_the_options_and_the_store(served: Path) -> None:
    variables = json.loads(run("env", "--json", cwd=served).stdout)
    java = shutil.which("java")
    assert java is not None
    seen = subprocess.run(
        [java, "-XshowSettings:properties", "-version"],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    ).stderr
    assert f"trustStore = {served / 'data' / 'tls' / 'trust.p12'}" in seen


def test_what_of_the_shell_will_not_hold_is_said(served: Path) -> None:
    present = {
        "SSL_CERT_FILE": "/etc/corporate.pem",
        "JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=/etc/corporate.p12",
    }
    told = run("env", cwd=served, env=present)
    assert told.returncode == exit_codes.OK
    assert "note: SSL_CERT_FILE was /etc/corporate.pem" in told.stderr
    assert "note: JAVA_TOOL_OPTIONS named a trust store" in told.stderr


@pytest.mark.parametrize(
    ("shell", "begins"),
    [("fish", "set -gx {} 'End"), ("powershell", "$env:{} = 'End"), ("sh", None)],
)
def test_each_shell_has_its_own_words(
    served: Path, shell: str, begins: str | None
) -> None:
    told = run("env", "--plain", "--shell", shell, cwd=served).stdout.splitlines()
    name = "SERVICEBUS_CONNECTION_STRING"
    assert told[0].startswith((begins or "export {}='End").format(name))
    assert "UseDevelopmentEmulator=true" in told[0]
    quoted = {"fish": r"bus\'s", "powershell": "bus''s", "sh": "bus'\"'\"'s"}
    (bundle,) = (line for line in told if "SSL_CERT_FILE" in line)
    assert quoted[shell] in bundle


def test_refusals_say_what_to_do(tmp_path: Path, served: Path) -> None:
    no_bus = run("env", cwd=tmp_path)
    assert no_bus.returncode == exit_codes.USAGE
    assert "root-key: No such file" in no_bus.stderr
    no_shell = run("env", "--shell", "tcsh", cwd=served)
    assert no_shell.returncode == exit_codes.USAGE
    assert "--shell is 'tcsh'; it must be sh, fish, powershell." in no_shell.stderr
    without_tls = Path(tmp_path / "plain")
    without_tls.mkdir()
    with Serving(*FREE, "--tls-port", "0", cwd=without_tls) as server:
        server.stop()
    told = run("env", cwd=without_tls)
    assert told.returncode == exit_codes.USAGE
    assert "trust.pem: it is made by `twinbus serve`" in told.stderr


def test_a_certificate_that_was_brought_needs_no_trust_of_ours(served: Path) -> None:
    brought = {"TWINBUS_TLS_CERT": "/etc/bus.pem"}
    told = run("env", "--json", cwd=served, env=brought)
    assert set(json.loads(told.stdout)) == STRINGS


def test_a_bus_without_tls_is_reached_without(served: Path) -> None:
    off = {"TWINBUS_TLS_PORT": "0"}
    told = run("env", "--plain", "--json", cwd=served, env=off)
    assert set(json.loads(told.stdout)) == STRINGS

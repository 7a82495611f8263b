"""`twinbus connection-string`: read from the settings and the data folder."""

import json
from pathlib import Path

from twinbus.cli import exit_codes

from .command import run

COMMAND = "connection-string"


def data_folder(tmp_path: Path, key: str = "the key of this folder") -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "root-key").write_text(f"{key}\n")
    return data


def test_it_is_what_an_sdk_takes(tmp_path: Path) -> None:
    data_folder(tmp_path)
    assert run(COMMAND, cwd=tmp_path).stdout == (
        "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=the key of this folder;UseDevelopmentEmulator=true;\n"
    )


def test_settings_are_read_as_serve_reads_them(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text('[server]\nport = 5680\nhost = "10.0.0.9"\n')
    told = run(
        *(COMMAND, "--config", "bus.toml", "--entity", "orders"),
        cwd=tmp_path,
        env={"TWINBUS_KEY": "given by a variable"},
    )
    assert told.stdout == (
        "Endpoint=sb://10.0.0.9:5680;SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=given by a variable;UseDevelopmentEmulator=true;"
        "EntityPath=orders;\n"
    )


def test_json_for_tls_names_the_authority(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    found = json.loads(run(COMMAND, "--tls", "--json", cwd=tmp_path).stdout)
    assert found == {
        "connection_string": "Endpoint=sb://localhost:5672;"
        "SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=the key of this folder;",
        "key_name": "RootManageSharedAccessKey",
        "key": "the key of this folder",
        "entity_path": None,
        "ca_file": str(data / "tls" / "ca.pem"),
    }


def refusal(tmp_path: Path, *flags: str) -> str:
    told = run(COMMAND, *flags, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (exit_codes.USAGE, "")
    (line,) = told.stderr.splitlines()
    return line


def test_what_it_cannot_know_it_does_not_guess(tmp_path: Path) -> None:
    assert "data/root-key: No such file" in refusal(tmp_path)
    data = data_folder(tmp_path)
    assert "Name the one that it has taken" in refusal(tmp_path, "--port", "0")
    (tmp_path / "bus.toml").write_text("[server]\ntls_port = 0\n")
    flags = ("--config", "bus.toml", "--tls")
    assert "TLS off (tls_port is 0)" in refusal(tmp_path, *flags)
    (data / "root-key").write_text("\n")
    assert "data/root-key is empty" in refusal(tmp_path)

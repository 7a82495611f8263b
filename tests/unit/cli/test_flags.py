"""Flags that are made from tables: settings, and properties of entities."""

import os
from pathlib import Path

import pytest

from twinbus.cli import exit_codes, serve
from twinbus.cli.main import run
from twinbus.config.config import Config
from twinbus.config.settings import SETTINGS

VALUES = {
    **{"data": "folder", "host": "::1", "tls_cert": "c.pem", "tls_key": "k.pem"},
    **{"key": "secret", "store": "memory:", "namespace": "other"},
    **{"log_level": "debug", "send_id_window": "2d"},
    **{"transfer_conventional": "off", "transfer_keyed": "on", "transfer_limit": "5m"},
    # More would start processes.
    **{"brokers": "1", "fragments": "8", "max_diagnoses": "9"},
    **{"throttle_memory_percent": "80", "audit": "off"},
}
"""For the settings that are not whole numbers, or small ones."""

SWITCHES = {name for name, setting in SETTINGS.items() if not setting.metavar}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Configurations of servers that would have been run."""
    configs: list[Config] = []
    monkeypatch.setattr(serve, "run_server", configs.append)
    for variable in os.environ:
        if variable.startswith("TWINBUS_"):
            monkeypatch.delenv(variable)
    return configs


def test_no_flag_changes_no_setting(served: list[Config]) -> None:
    assert run(["serve"]) == exit_codes.OK
    assert served == [Config()]
    assert served[0].asked_for == frozenset()


@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - SWITCHES - {"tls_key"}))
def test_each_setting_is_a_flag(name: str, served: list[Config]) -> None:
    given = VALUES.get(name, "2048")
    assert run(["serve", SETTINGS[name].flag, given]) == exit_codes.OK
    [config] = served
    found = getattr(config, name)
    is_list = SETTINGS[name].is_repeatable
    assert found == (given,) if is_list else str(found) == given
    assert config.asked_for == {name}


def test_a_store_is_given_several_times(served: list[Config]) -> None:
    run(["serve", "--store", "sqlite:///a", "--store", "sqlite:///b"])
    assert served[0].store == ("sqlite:///a", "sqlite:///b")


def test_strict_takes_no_value(served: list[Config]) -> None:
    run(["serve", "--strict"])
    assert served[0].strict


def test_flags_win_over_variables_and_the_file(
    served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bus.toml"
    file.write_text("[server]\nport = 1\nmax_entities = 1\nmax_connections = 1\n")
    monkeypatch.setenv("TWINBUS_CONFIG", str(file))
    monkeypatch.setenv("TWINBUS_PORT", "2")
    monkeypatch.setenv("TWINBUS_MAX_ENTITIES", "2")
    run(["serve", "--port", "3"])
    [config] = served
    assert (config.port, config.max_entities, config.max_connections) == (3, 2, 1)


def test_wrong_value_is_refused_with_the_flag(
    served: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--max-message-bytes", "5"]) == exit_codes.USAGE
    assert "--max-message-bytes: 5 is not from 1024 to" in capsys.readouterr().err
    assert served == []


@pytest.mark.parametrize("name", SETTINGS)
def test_help_has_the_text_the_default_and_the_variable(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    setting = SETTINGS[name]
    default = setting.written_default or setting.if_empty
    assert f"{setting.flag} {setting.metavar}".strip() in shown
    assert f"{setting.help} Default: {default}. ({setting.variable})" in shown


def test_commands_describe_a_setting_in_their_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["env", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--port PORT Port of the server. Default: 5672. (TWINBUS_PORT)" in shown

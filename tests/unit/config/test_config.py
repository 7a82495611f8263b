"""Settings: their sources, the order of these, and errors for everything else."""

import json
from pathlib import Path
from typing import Any

import pytest

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.config.config import Config, ConfigError, load_config


@pytest.fixture
def toml(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        file = tmp_path / "bus.toml"
        file.write_text(text)
        return file

    return write


def test_nothing_given_gives_the_defaults() -> None:
    assert load_config(None, {}, {}) == Config()


def test_later_sources_win(toml: Any) -> None:
    file = toml('[server]\nport = 1\nhost = "::1"\nnamespace = "of-the-file"\n')
    environment = {"TWINBUS_PORT": "2", "TWINBUS_HOST": "0.0.0.0", "HOME": "/"}
    config = load_config(file, environment, {"port": "3", "host": None})
    assert (config.port, config.host) == (3, "0.0.0.0")
    assert config.namespace == "of-the-file"


def test_every_setting_is_a_variable_and_a_name_of_the_file(toml: Any) -> None:
    values: dict[str, Any] = {
        "data": "folder",
        "host": "::1",
        "port": 1,
        "http_port": 5,
        "tls_port": 2,
        "tls_cert": "cert.pem",
        "tls_key": "key.pem",
        "key": "secret",
        "store": "memory:",
        "namespace": "other",
        "log_level": "debug",
        "max_message_bytes": 2048,
        "max_connections": 3,
        "max_entities": 4,
    }
    expected = Config(**{**values, "data": Path("folder"), "store": ("memory:",)})
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    environment = {f"TWINBUS_{name.upper()}": str(v) for name, v in values.items()}
    assert load_config(toml("[server]\n" + "\n".join(lines)), {}, {}) == expected
    assert load_config(None, environment, {}) == expected
    assert load_config(None, {}, values) == expected


@pytest.mark.parametrize(
    "written", ["sqlite:///a b,c memory:", "sqlite:///a b,c,memory:", " memory: ,"]
)
def test_stores_are_split_where_a_url_begins(written: str) -> None:
    found = load_config(None, {"TWINBUS_STORE": written}, {}).store
    assert found[-1] == "memory:"
    assert found[:-1] in ((), ("sqlite:///a b,c",))


def test_the_file_lists_stores_under_either_name(toml: Any) -> None:
    listed = '["sqlite:///a", "sqlite:///b, c"]'
    for name in ("store", "stores"):
        config = load_config(toml(f"[server]\n{name} = {listed}"), {}, {})
        assert config.store == ("sqlite:///a", "sqlite:///b, c")
    with pytest.raises(ConfigError, match="there twice"):
        load_config(toml(f"[server]\nstore = {listed}\nstores = {listed}"), {}, {})


def test_the_file_names_queues_and_rules(toml: Any) -> None:
    config = load_config(
        toml(
            """
            [queues.orders]
            lock_duration = "30s"
            max_delivery_count = 5
            [[queues.orders.authorization_rules]]
            key_name = "worker"
            primary_key = "k1"
            rights = ["Listen"]
            [queues."sales/eu"]
            [[rules]]
            key_name = "sender"
            primary_key = "k2"
            rights = ["Send"]
            """
        ),
        {},
        {},
    )
    worker = AccessRule(key_name="worker", primary_key="k1", rights=("Listen",))
    assert config.queues == {
        "orders": {
            "lock_duration_ms": 30_000,
            "max_delivery_count": 5,
            "authorization_rules": [worker],
        },
        "sales/eu": {},
    }
    assert config.rules == (
        AccessRule(key_name="sender", primary_key="k2", rights=("Send",)),
    )


def test_it_is_known_what_was_asked_for(toml: Any) -> None:
    file = toml("[server]\nport = 1")
    config = load_config(file, {"TWINBUS_TLS_PORT": "5671"}, {"http_port": "5300"})
    assert config.asked_for == {"port", "tls_port", "http_port"}


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(Config(key="secret"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[srever]", "unknown section 'srever'; known are server, queues, topics, "),
        (
            "[server]\nprot = 1",
            r"\[server\] prot: unknown setting; known are allow_faults",
        ),
        ("[server]\nport = true", "port: True is not a whole number"),
        ("[server]\nport = 1.5", "port: 1.5 is not a whole number"),
        ("[server]\nport = 70000", "port: 70000 is not from 0 to 65535"),
        ("[server]\nhost = 5", "host: 5 is not a text"),
        ('[server]\nlog_level = "loud"', "'loud' is none of debug, info"),
        ('[server]\nnamespace = ""', "namespace: is empty"),
        ('[server]\ntls_key = "key.pem"', "tls_key is given and tls_cert is not"),
        ("server = 1", "server: must be a table"),
        ("[queues]\norders = 1", r"\[queues.orders\]: must be a table"),
        ("[queues.orders]\nlock = 1", "'orders' has no property 'lock'"),
        ('[queues.orders]\nlock_duration = "x"', "lock_duration: 'x' is not a dur"),
        ('[queues.orders]\nlock_duration = "1s"', "must be from 5000 ms to 300000 ms"),
        ('[queues.orders]\nmax_delivery_count = "5"', "must be of type int, not str"),
        ("[queues.'$bad']", "not a valid entity path"),
        ("[queues.q]\nauthorization_rules = 1", "must be a list of tables"),
        ("[queues.q]\nauthorization_rules = [{}]", "key_name must be a text"),
        ("rules = 1", "write each as"),
        ('[[rules]]\nkey_name = "a"', "primary_key must be a text, and not empty"),
        ("[[rules]]\nkey = 1", "unknown name 'key'; known are key_name, primary_key"),
        (
            '[[rules]]\nkey_name = "a"\nprimary_key = "b"\nrights = ["Read"]',
            "rights must be a list of Send, Listen, Manage",
        ),
        ("port = ", "Invalid value"),
    ],
)
def test_mistakes_in_the_file_name_their_place(
    toml: Any, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(toml(text), {}, {})


def test_the_complaint_names_the_file(toml: Any) -> None:
    file = toml("[srever]")
    with pytest.raises(ConfigError, match=str(file)):
        load_config(file, {}, {})


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.toml", {}, {})
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path, {}, {})
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="decode"):
        load_config(binary, {}, {})


def test_a_wrong_variable_or_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="TWINBUS_PORT: 'x' is not a whole number"):
        load_config(None, {"TWINBUS_PORT": "x"}, {})
    with pytest.raises(ConfigError, match="--max-message-bytes: 5 is not from 1024"):
        load_config(None, {}, {"max_message_bytes": "5"})


def test_a_mistyped_variable_is_refused_and_others_are_not() -> None:
    with pytest.raises(ConfigError, match=r"TWINBUS_PROT: .* TWINBUS_PORT is known"):
        load_config(None, {"TWINBUS_PROT": "1"}, {})
    # What a container platform sets for a service of our name.
    others = {"TWINBUS_PURE": "1", "TWINBUS_SERVICE_HOST": "10.0.0.1"}
    assert load_config(None, others, {}) == Config()


@pytest.mark.parametrize(
    ("given", "strict"),
    [(True, True), ("true", True), ("1", True), ("False", False), ("0", False)],
)
def test_strict_is_true_or_false(given: Any, strict: bool) -> None:
    assert load_config(None, {"TWINBUS_STRICT": str(given)}, {}).strict is strict
    assert load_config(None, {}, {"strict": given}).strict is strict


@pytest.mark.parametrize("given", ["", "yes", "2"])
def test_strict_is_nothing_else(given: str) -> None:
    with pytest.raises(ConfigError, match="neither true nor false"):
        load_config(None, {"TWINBUS_STRICT": given}, {})


def test_strict_stands_in_the_file(toml: Any) -> None:
    assert load_config(toml("[server]\nstrict = true\n"), {}, {}).strict


@pytest.mark.parametrize("given", ["1m", "P7D", "366d", "36h"])
def test_window_of_send_ids_is_a_duration(given: str) -> None:
    assert load_config(None, {}, {"send_id_window": given}).send_id_window == given


@pytest.mark.parametrize("given", ["", "59s", "367d", "unlimited", "long"])
def test_window_of_send_ids_has_bounds(given: str) -> None:
    with pytest.raises(ConfigError, match="--send-id-window: "):
        load_config(None, {}, {"send_id_window": given})


def test_variables_of_other_commands_are_no_mistyped_settings() -> None:
    variables = {
        "TWINBUS_CONNECTION_STRING": "Endpoint=sb://x/",
        "TWINBUS_CONTEXT": "a",
    }
    assert not load_config(None, variables, {}).print_connection_string

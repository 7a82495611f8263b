"""Which server is meant, and with which key."""

from pathlib import Path

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.server_address import (
    ServerAddress,
    parse_connection_string,
    server_address,
)
from twinbus.config import Config

KEY = "SharedAccessKeyName=root;SharedAccessKey=a=b/c+="


@pytest.mark.parametrize(
    ("text", "host", "port", "is_tls"),
    [
        (f"Endpoint=sb://bus.example/;{KEY}", "bus.example", 5671, True),
        (f"Endpoint=sb://bus.example:99;{KEY}", "bus.example", 99, True),
        (
            f"Endpoint=sb://localhost;{KEY};UseDevelopmentEmulator=true;",
            *("localhost", 5672, False),
        ),
        (
            f" endpoint=sb://[::1]:7/ ; {KEY} ; usedevelopmentemulator=TRUE ",
            *("::1", 7, False),
        ),
    ],
)
def test_a_connection_string_says_it_all(
    text: str, host: str, port: int, is_tls: bool
) -> None:
    assert parse_connection_string(text) == ServerAddress(
        host=host, port=port, is_tls=is_tls, key_name="root", key="a=b/c+="
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        KEY,
        "Endpoint=sb://localhost",
        "Endpoint=sb://localhost;SharedAccessKeyName=root",
        f"Endpoint=sb://localhost:port;{KEY}",
        f"Endpoint=sb://localhost:70000;{KEY}",
        f"Endpoint=sb://[;{KEY}",
    ],
)
def test_half_a_connection_string_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="not complete") as refused:
        parse_connection_string(text)
    assert refused.value.exit_code == exit_codes.USAGE


def test_the_flag_goes_before_the_variable() -> None:
    variables = {"TWINBUS_CONNECTION_STRING": f"Endpoint=sb://variable;{KEY}"}
    flag = f"Endpoint=sb://flag;{KEY}"
    assert server_address(flag, Config(), variables).host == "flag"
    assert server_address(None, Config(), variables).host == "variable"


def test_without_one_it_is_the_server_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "root-key").write_text("kept\n")
    address = server_address(None, Config(data=tmp_path, port=99), {})
    assert (address.text, address.is_tls) == ("localhost:99", False)
    assert (address.key_name, address.key) == ("RootManageSharedAccessKey", "kept")
    given = server_address(None, Config(data=tmp_path, key="given"), {})
    assert given.key == "given"


def test_a_missing_key_is_explained(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"root-key: No such file.*--data"):
        server_address(None, Config(data=tmp_path), {})


def test_the_key_is_not_shown() -> None:
    assert "a=b" not in repr(parse_connection_string(f"Endpoint=sb://h;{KEY}"))


@pytest.mark.parametrize("is_tls", [True, False])
def test_an_address_as_connection_string_means_itself(is_tls: bool) -> None:
    address = ServerAddress(
        host="bus.example", port=5680, is_tls=is_tls, key_name="n", key="k=="
    )
    assert parse_connection_string(address.connection_string) == address

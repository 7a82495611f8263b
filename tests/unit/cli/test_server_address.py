"""Which server and which key a command uses."""

from pathlib import Path

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.server_address import server_address
from twinbus.config.config import Config

KEY = "SharedAccessKeyName=root;SharedAccessKey=a=b/c+="


def test_what_is_wrong_with_a_connection_string_is_a_failure() -> None:
    with pytest.raises(Failure, match="not complete") as refused:
        server_address("Endpoint=sb://localhost", Config(), {})
    assert refused.value.exit_code == exit_codes.USAGE


def test_a_signature_is_not_enough() -> None:
    text = "Endpoint=sb://localhost;SharedAccessSignature=hush"
    with pytest.raises(Failure, match="needs SharedAccessKeyName") as refused:
        server_address(text, Config(), {})
    assert refused.value.exit_code == exit_codes.USAGE
    assert "hush" not in str(refused.value)


def test_the_flag_goes_before_the_variable() -> None:
    variables = {"TWINBUS_CONNECTION_STRING": f"Endpoint=sb://variable;{KEY}"}
    flag = f"Endpoint=sb://flag;{KEY}"
    assert server_address(flag, Config(), variables).host == "flag"
    assert server_address(None, Config(), variables).host == "variable"


def test_a_file_may_have_the_connection_string(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_text(f"Endpoint=sb://filed;{KEY}\n")
    assert server_address(f"file:{file}", Config(), {}).host == "filed"
    variables = {"TWINBUS_CONNECTION_STRING": f"file:{file}"}
    assert server_address(None, Config(), variables).host == "filed"
    with pytest.raises(Failure, match=r"^--connection-string: .*No such file"):
        server_address(f"file:{tmp_path / 'missing'}", Config(), {})


def test_without_one_it_is_the_server_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "root-key").write_text("kept\n")
    address = server_address(None, Config(data=tmp_path, port=99), {})
    assert (address.address, address.is_tls) == ("localhost:99", False)
    assert (address.key_name, address.key) == ("RootManageSharedAccessKey", "kept")
    given = server_address(None, Config(data=tmp_path, key="given"), {})
    assert given.key == "given"


def test_a_missing_key_is_explained(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"root-key: No such file.*--data"):
        server_address(None, Config(data=tmp_path), {})

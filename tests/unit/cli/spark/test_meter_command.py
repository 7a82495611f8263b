"""Settings of a pair on the command line of the meter."""

import pytest
from typer.testing import CliRunner

from twinbus.cli.failure import Failure
from twinbus.cli.spark_command import app


def run(*arguments: str) -> Failure:
    result = CliRunner().invoke(app, ["meter", "oplog", *arguments])
    assert isinstance(result.exception, Failure), result.output
    return result.exception


@pytest.mark.parametrize(
    "text",
    ["backlog_queue_count", "queues=3", "syphon_hosts=0", "ping_interval=nan", "=3"],
)
def test_a_wrong_setting_of_a_pair_names_those_that_there_are(text: str) -> None:
    for flag in ("--what-if", "--pair"):
        failure = run(flag, text)
        assert failure.exit_code == 2
        assert f"{flag} is '{text}'" in str(failure)
        assert "failover_interval" in str(failure)


def test_csv_needs_a_place() -> None:
    assert "--csv needs --output" in str(run("--csv"))

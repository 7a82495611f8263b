"""The command `twinbus`: which commands there are, and how they end.

A command's module is imported when the command runs, so that `--help` and the other
commands start fast. A failure is one line on stderr and an exit code; a traceback means
a bug.
"""

import sys
from typing import Annotated

import typer

from twinbus.cli import (
    dead_letters_command,
    entities_command,
    exit_codes,
    faults_command,
    pair_command,
    spark_command,
)
from twinbus.cli.brokers_command import EXAMPLES as BROKERS_EXAMPLES
from twinbus.cli.brokers_command import brokers
from twinbus.cli.check_command import EXAMPLES as CHECK_EXAMPLES
from twinbus.cli.check_command import check
from twinbus.cli.command_group import examples, group
from twinbus.cli.connection_string_command import EXAMPLES as CONNECTION_EXAMPLES
from twinbus.cli.connection_string_command import connection_string
from twinbus.cli.diagnose_command import EXAMPLES as DIAGNOSE_EXAMPLES
from twinbus.cli.diagnose_command import diagnose
from twinbus.cli.env_command import EXAMPLES as ENV_EXAMPLES
from twinbus.cli.env_command import env
from twinbus.cli.failure import PROGRAM, Failure, complain
from twinbus.cli.recover_command import EXAMPLES as RECOVER_EXAMPLES
from twinbus.cli.recover_command import recover
from twinbus.cli.serve_command import EXAMPLES as SERVE_EXAMPLES
from twinbus.cli.serve_command import serve
from twinbus.cli.syphon_command import EXAMPLES as SYPHON_EXAMPLES
from twinbus.cli.syphon_command import syphon

app = group(
    PROGRAM,
    "A self-hosted message bus that speaks Azure Service Bus.",
    examples(
        "twinbus serve",
        "twinbus entities create queue orders --lock-duration 30s",
        "twinbus entities list --json",
    ),
)
app.command("serve", epilog=SERVE_EXAMPLES)(serve)
app.command("brokers", epilog=BROKERS_EXAMPLES)(brokers)
app.command("check", epilog=CHECK_EXAMPLES)(check)
app.command("connection-string", epilog=CONNECTION_EXAMPLES)(connection_string)
app.command("recover", epilog=RECOVER_EXAMPLES)(recover)
app.command("env", epilog=ENV_EXAMPLES)(env)
app.add_typer(entities_command.app)
app.add_typer(pair_command.app)
app.command("syphon", epilog=SYPHON_EXAMPLES)(syphon)
app.add_typer(dead_letters_command.app)
app.add_typer(spark_command.app)
app.add_typer(faults_command.app)
app.command("diagnose", epilog=DIAGNOSE_EXAMPLES)(diagnose)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True),
    ] = False,
) -> None:
    if version:
        print(_version())
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _version() -> str:
    from twinbus import __version__, compilation

    return f"{PROGRAM} {__version__} ({compilation.describe()})"


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command. Returns its exit code."""
    try:
        # Commands return None; `typer.Exit` is returned as its code.
        code = app(arguments, prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        complain(f"{error.format_message().rstrip('.')}. Try '{PROGRAM} --help'.")
        return exit_codes.USAGE
    except typer.Abort:
        complain("stopped")
        return exit_codes.FAILED
    except Failure as failure:
        complain(str(failure))
        return failure.exit_code
    return code or exit_codes.OK

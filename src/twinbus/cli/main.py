"""The command `twinbus`: which commands there are, and how they end.

The flags of a command are imported if it is the one that runs, and all else when it
runs, so that each starts fast. A failure is one line on stderr and an exit code; a
traceback means a bug.
"""

import errno
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.failure import PROGRAM, Failure, NobodyReads, complain
from twinbus.cli.usage_errors import usage_text

# In the order of the help. The flags of each are in a module named after it.
COMMANDS: Final = (
    *("serve", "brokers", "catalog", "check", "backup", "restore", "recover"),
    *("connection-string", "env", "context", "entities", "keys", "namespaces"),
    *("send", "receive", "peek", "purge", "stats", "watch", "trace", "dead-letters"),
    *("pair", "syphon", "spark", "leases", "faults", "log", "diagnose", "completion"),
)

COMPLETION_VARIABLE: Final = f"_{PROGRAM.upper()}_COMPLETE"
"""By it a shell asks for what completes a line."""


_OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What goes wrong where the output of a command is redirected to."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """`twinbus` with these commands."""
    app = group(
        PROGRAM,
        "A self-hosted message bus that speaks Azure Service Bus.",
        examples(
            "twinbus serve",
            "twinbus entities create queue orders --lock-duration 30s",
            "twinbus entities list --json",
        ),
    )
    app.callback(invoke_without_command=True)(_root)
    for name in names:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    """A command, or a group of commands."""
    own_name = name.replace("-", "_")
    module = import_module(f"twinbus.cli.{own_name}_command")
    if hasattr(module, "app"):
        app.add_typer(module.app)
    else:
        app.command(name, epilog=module.EXAMPLES)(getattr(module, own_name))


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


def _prepare_completion() -> None:
    """A shell asks what completes a line; typer answers instead of running it."""
    from typer._completion_classes import completion_init

    completion_init()


def _completed_words() -> list[str]:
    """The line that a shell completes, without the program and the last word, which is
    not whole."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    return words if line[-1:].isspace() else words[:-1]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.stdout is None:
        # Closed by a shell: nobody reads.
        sys.stdout = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        # What a terminal of another encoding cannot show is no reason to stop.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command. Returns its exit code."""
    is_completion = COMPLETION_VARIABLE in os.environ
    words = _completed_words() if is_completion else arguments
    named = [word for word in words[:1] if word in COMMANDS]
    app = command_line(named if named or words == ["--version"] else COMMANDS)
    if is_completion:
        _prepare_completion()
    try:
        # Commands return None; `typer.Exit` is returned as its code.
        code = app(arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        complain(usage_text(error))
        return exit_codes.USAGE
    except typer.Abort:
        complain("stopped")
        return exit_codes.FAILED
    except Failure as failure:
        complain(str(failure))
        return failure.exit_code
    except (BrokenPipeError, NobodyReads):
        _drop_output()
        return exit_codes.FAILED
    except OSError as error:
        # One with a file is told by the command that has opened it.
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _drop_output()
        complain(f"The output can't be written: {error.strerror}.")
        return exit_codes.FAILED
    return code or exit_codes.OK


def _drop_output() -> None:
    """What is still buffered would fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""`twinbus completion`: prints what lets a shell complete commands and names."""

from typing import Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.completion import one_of
from twinbus.cli.failure import PROGRAM, Failure

_SHELLS: Final = ("bash", "zsh", "fish", "powershell")

EXAMPLES: Final = examples(
    'eval "$(twinbus completion bash)"',
    "twinbus completion zsh > _twinbus",
    "twinbus completion fish > twinbus.fish",
)


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL",
            help="bash, zsh, fish or powershell.",
            autocompletion=one_of(*_SHELLS),
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    It completes commands, flags, contexts, and the entities of the server that a
    command would ask, if that answers within a second.
    """
    from typer._completion_shared import get_completion_script

    from twinbus.cli.main import COMPLETION_VARIABLE

    if shell not in _SHELLS:
        raise Failure(
            f"There is no completion for '{shell}'; there is one for "
            f"{', '.join(_SHELLS)}.",
            exit_codes.USAGE,
        )
    script = get_completion_script(
        prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell
    )
    print(script)

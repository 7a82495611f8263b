"""Flags that are settings, made from the table in `config/settings.py`.

The value of such a flag is not read here: it goes to `load_config` as it was written,
which knows all sources, their order and the types.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import typer

from twinbus.config.settings import SETTINGS, Setting

Command = Callable[..., None]


def setting_flag(name: str, help: str | None = None) -> Any:
    """The flag of one setting, for a command that describes it in its own words."""
    setting = SETTINGS[name]
    return _option(setting if help is None else replace(setting, help=help))


def takes_settings(command: Command) -> Command:
    """Let a command take every setting as a flag, in its keyword arguments.

    typer makes flags from the signature of a function, so that is where the rows of
    the table are put, in place of the function's `**` parameter.
    """
    written = inspect.signature(command).parameters.values()
    own = [each for each in written if each.kind is not inspect.Parameter.VAR_KEYWORD]
    signature = inspect.Signature([*own, *map(_parameter, SETTINGS.values())])
    command.__signature__ = signature  # type: ignore[attr-defined]
    return command


def _parameter(setting: Setting) -> inspect.Parameter:
    """Of a command; None where the flag is not given."""
    value = str if setting.metavar else bool
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[value | None, _option(setting)],
    )


def _option(setting: Setting) -> Any:
    return typer.Option(
        setting.flag,
        help=setting.flag_help,
        metavar=setting.metavar or None,
        show_default=False,
    )

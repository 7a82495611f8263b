"""Flags that several commands share, and flags that are settings.

typer makes flags from the signature of a function. A command takes a group of flags in
its `**` parameter: the decorator `takes` puts them into the signature in its place.

Settings come from the table in `config/settings.py`. The value of such a flag is not
read here: it goes to `load_config` as it was written, which knows all sources, their
order and the types.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import typer

from twinbus.config.settings import SETTINGS

Command = Callable[..., None]
Flag = inspect.Parameter


def flag(name: str, annotation: Any, default: object = None) -> Flag:
    """A flag that commands find under its name in their keyword arguments."""
    return Flag(name, Flag.KEYWORD_ONLY, default=default, annotation=annotation)


def takes(*flags: Flag) -> Callable[[Command], Command]:
    """Let a command take these flags, after its own."""

    def with_flags(command: Command) -> Command:
        written = inspect.signature(command).parameters.values()
        own = [each for each in written if each.kind is not Flag.VAR_KEYWORD]
        signature = inspect.Signature([*own, *flags])
        command.__signature__ = signature  # type: ignore[attr-defined]
        return command

    return with_flags


def setting_flag(name: str, help: str | None = None) -> Flag:
    """The flag of a setting; its value is None if it is not given. A command may
    describe the setting in its own words."""
    setting = SETTINGS[name]
    if help is not None:
        setting = replace(setting, help=help)
    option = typer.Option(
        setting.flag,
        help=setting.flag_help,
        metavar=setting.metavar or None,
        show_default=False,
    )
    kind: Any = str if setting.metavar else bool
    if setting.is_repeatable:
        kind = list[str]
    return flag(name, Annotated[kind | None, option])

"""`twinbus context`: names for namespaces, kept in the user's config folder."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.completion import context_names
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure, complain
from twinbus.cli.flags import setting_flag, takes

_STANDARD_INPUT: Final = "-"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the context.", autocompletion=context_names
    ),
]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
Given = Annotated[
    str | None,
    typer.Argument(
        metavar="[CONNECTION-STRING]",
        help="A connection string, file:PATH or env:NAME with one, or - for standard "
        "input. Its SharedAccessKey may be file:PATH or env:NAME, too. Default: the "
        "server of this machine.",
        show_default=False,
    ),
]
Authority = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="The authority of its certificate, if it is not one of the system.",
    ),
]

app = group(
    "context",
    "Name namespaces, so that no connection string is typed twice.",
    examples(
        "twinbus context add here",
        "twinbus context list",
        "twinbus context use here",
    ),
)


@app.command(
    "add",
    epilog=examples(
        "twinbus context add here",
        "twinbus context add site-a file:site-a",
        "twinbus connection-string | twinbus context add site-b -",
    ),
)
@takes(
    setting_flag("data", "Where the server of this machine keeps its key."),
    setting_flag("port", "Port of the server of this machine."),
)
def _add(
    name: NewName,
    given: Given = None,
    authority: Authority = None,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Add a context, or replace one. The first becomes the current one.

    A connection string is kept in a file that only you may read. Better give a
    reference: then the key stays where it is.
    """
    from twinbus.cli.contexts.context_file import (
        ContextEntry,
        check_context_name,
        contexts_path,
        load_contexts,
        save_contexts,
    )

    check_context_name(name)
    if authority is not None and not authority.is_file():
        raise Failure(f"--ca-file: there is no file {authority}.", exit_codes.USAGE)
    text = _text(given) if given else _of_this_machine(flags)
    file = contexts_path(os.environ)
    contexts = load_contexts(file)
    verb = "Replaced" if name in contexts.entries else "Added"
    entry = ContextEntry(name, text, str(authority.absolute()) if authority else "")
    contexts.entries[name] = entry
    contexts.current = contexts.current or name
    shown = _shown(entry, contexts.current)
    save_contexts(file, contexts)
    if is_json:
        print(json.dumps(shown, indent=2))
    else:
        used = "current" if contexts.current == name else "not the current one"
        where = shown["address"] or entry.secret_place()
        print(f"{verb} '{name}': {where} ({used}).")
        if "problem" in shown:
            complain(f"note: {shown['problem']}")


@app.command(
    "list", epilog=examples("twinbus context list", "twinbus context list --json")
)
def _list(is_json: Json = False) -> None:
    """List the contexts."""
    from twinbus.cli.contexts.context_file import contexts_path, load_contexts

    contexts = load_contexts(contexts_path(os.environ))
    shown = [
        _shown(entry, contexts.current) for _, entry in sorted(contexts.entries.items())
    ]
    if is_json:
        print(json.dumps(shown, indent=2))
    elif shown:
        from twinbus.cli.tables import print_table

        headings = ("", "context", "address", "key", "secret")
        print_table(
            headings,
            [
                (
                    "*" if one["is_current"] else "",
                    *(str(one[key]) for key in ("name", "address", "key_name")),
                    str(one["secret"]) + " (can't be read)" * ("problem" in one),
                )
                for one in shown
            ],
        )
    else:
        print("There are no contexts. 'twinbus context add NAME' makes one.")


@app.command(
    "use", epilog=examples("twinbus context use here", "twinbus context use site-a")
)
def _use(name: Name, is_json: Json = False) -> None:
    """Make a context the current one: commands use it if they are told no other."""
    from twinbus.cli.contexts.context_file import (
        contexts_path,
        load_contexts,
        save_contexts,
    )

    file = contexts_path(os.environ)
    contexts = load_contexts(file)
    contexts.current = contexts.get(name).name
    save_contexts(file, contexts)
    if is_json:
        print(json.dumps({"current": name}))
    else:
        print(f"The current context is '{name}'.")


@app.command(
    "show", epilog=examples("twinbus context show", "twinbus context show site-a")
)
def _show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the context. Default: the current one.",
            show_default=False,
            autocompletion=context_names,
        ),
    ] = None,
    is_json: Json = False,
) -> None:
    """Show a context, without its secret."""
    from twinbus.cli.contexts.context_choice import current_context, named_context
    from twinbus.cli.contexts.context_file import contexts_path, load_contexts

    if name:
        entry = named_context(name, os.environ)
    else:
        found = current_context(os.environ)
        if found is None:
            raise Failure(
                "There is no current context: commands use the server of this machine.",
                exit_codes.NOT_FOUND,
            )
        entry = found
    shown = _shown(entry, load_contexts(contexts_path(os.environ)).current)
    if is_json:
        print(json.dumps(shown, indent=2))
    else:
        from twinbus.cli.tables import print_fields

        shown["is_current"] = "yes" if shown["is_current"] else "no"
        print_fields({key.replace("_", " "): str(shown[key]) for key in shown})


@app.command(
    "remove", epilog=examples("twinbus context remove site-b", "twinbus context list")
)
def _remove(name: Name, is_json: Json = False) -> None:
    """Forget a context. Nothing happens to its namespace."""
    from twinbus.cli.contexts.context_file import (
        contexts_path,
        load_contexts,
        save_contexts,
    )

    file = contexts_path(os.environ)
    contexts = load_contexts(file)
    del contexts.entries[contexts.get(name).name]
    was_current = contexts.current == name
    if was_current:
        contexts.current = ""
    save_contexts(file, contexts)
    if is_json:
        print(json.dumps({"removed": name}))
        return
    print(f"Removed '{name}'.")
    if was_current:
        print("It was the current one: commands use the server of this machine now.")


def _text(given: str) -> str:
    """What is kept of what was given. Raises Failure."""
    from twinbus.cli.server_address import parsed
    from twinbus.client.secret_reference import FILE, is_reference

    if given == _STANDARD_INPUT:
        given = sys.stdin.read().strip()
    if given.startswith(FILE):
        # The command may be run from any folder.
        return FILE + str(Path(given.removeprefix(FILE)).absolute())
    if not is_reference(given):
        parsed(given)
    return given


def _of_this_machine(flags: dict[str, Any]) -> str:
    """The server of this machine, with a reference to its key."""
    from twinbus.cli.server_address import local_reference
    from twinbus.cli.settings import settings

    return local_reference(settings(**flags))


def _shown(entry: Any, current: str) -> dict[str, object]:
    """All but the secret."""
    from twinbus.cli.server_address import parsed
    from twinbus.client.secret_reference import is_reference

    shown: dict[str, object] = {
        "name": entry.name,
        "is_current": entry.name == current,
        "address": "",
        "key_name": "",
        "secret": entry.secret_place(),
    }
    if entry.ca_file:
        shown["ca_file"] = entry.ca_file
    try:
        # Of a reference, what is there now.
        text = entry.text
        if is_reference(text):
            text = entry.connection_string(os.environ)
        found = parsed(text)
    except Failure as failure:
        shown["problem"] = str(failure)
    else:
        shown["address"] = found.address
        shown["key_name"] = found.key_name or "a signature"
    return shown

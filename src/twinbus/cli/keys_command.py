"""`twinbus keys`: authorization rules of the namespace and of single entities.

The commands ask a running server. Keys are printed only if that is asked for, as
connection strings, which programs take as they are.
"""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.completion import one_of, queue_paths, rule_names
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes

app = group(
    "keys",
    "Manage authorization rules: who may send, listen and manage, with which keys.",
    examples(
        "twinbus keys create shop --entity orders --right Send",
        "twinbus keys list --entity orders --show-keys",
        "twinbus keys regenerate shop --entity orders --key primary",
    ),
)

_RIGHTS: Final = ("Send", "Listen", "Manage")
_WHICH: Final = ("primary", "secondary")

NewName = Annotated[str, typer.Argument(help="Name of the rule.", metavar="NAME")]
RuleName = Annotated[
    str,
    typer.Argument(help="Name of the rule.", metavar="NAME", autocompletion=rule_names),
]
Entity = Annotated[
    str,
    typer.Option(
        "--entity",
        help="Queue or topic that the rule is for. Without it: the whole namespace.",
        metavar="PATH",
        show_default=False,
        autocompletion=queue_paths,
    ),
]
Strings = Annotated[
    bool,
    typer.Option(
        "--show-keys",
        help="Print the keys, as connection strings. Keep them out of logs.",
    ),
]


@app.command(
    "list",
    epilog=examples(
        "twinbus keys list",
        "twinbus keys list --entity orders --json",
        "twinbus keys list --show-keys",
    ),
)
@takes(*SERVER)
def _list(entity: Entity = "", with_keys: Strings = False, **flags: Any) -> None:
    """List the rules of the namespace, or of one entity."""
    rules = _ask(flags, "list-keys", entity, with_keys)
    _show(rules, flags)


@app.command(
    "create",
    epilog=examples(
        "twinbus keys create shop --entity orders --right Send",
        "twinbus keys create worker --right Send --right Listen --show-keys",
    ),
)
@takes(*SERVER)
def _create(
    name: NewName,
    rights: Annotated[
        list[str],
        typer.Option(
            "--right",
            help="Send, Listen or Manage (which includes the others). May be repeated.",
            metavar="RIGHT",
            show_default=False,
            autocompletion=one_of(*_RIGHTS),
        ),
    ],
    entity: Entity = "",
    with_keys: Strings = False,
    **flags: Any,
) -> None:
    """Create a rule with two new keys."""
    wanted = json.dumps([_right(right) for right in rights])
    made = _ask(flags, "create-key", entity, with_keys, key_name=name, rights=wanted)
    _show(made, flags)


def _right(given: str) -> str:
    for right in _RIGHTS:
        if given.lower() == right.lower():
            return right
    raise Failure(
        f"'{given}' is not a right: give {', '.join(_RIGHTS)}.", exit_codes.USAGE
    )


@app.command(
    "regenerate",
    epilog=examples(
        "twinbus keys regenerate shop --entity orders --key secondary",
        "twinbus keys regenerate worker --key primary --show-keys",
    ),
)
@takes(*SERVER)
def _regenerate(
    name: RuleName,
    which: Annotated[
        str,
        typer.Option(
            "--key",
            help="primary or secondary.",
            metavar="KEY",
            show_default=False,
            autocompletion=one_of(*_WHICH),
        ),
    ],
    entity: Entity = "",
    with_keys: Strings = False,
    **flags: Any,
) -> None:
    """Replace one key of a rule.

    Whoever uses the old key is refused at once, and loses open links within about a
    second. The other key stays.
    """
    if which.lower() not in _WHICH:
        raise Failure(
            f"--key is '{which}'; it must be 'primary' or 'secondary'.",
            exit_codes.USAGE,
        )
    chosen = {"key_name": name, "key": which.lower()}
    _show(_ask(flags, "regenerate-key", entity, with_keys, **chosen), flags)


@app.command(
    "delete", epilog=examples("twinbus keys delete shop --entity orders --yes")
)
@takes(*SERVER)
def _delete(
    name: RuleName, entity: Entity = "", is_sure: Yes = False, **flags: Any
) -> None:
    """Delete a rule. Whoever uses its keys loses access within about a second."""
    if not is_sure:
        where = f" of '{entity}'" if entity else " of the namespace"
        make_sure("delete", f"the rule '{name}'{where}")
    _ask(flags, "delete-key", entity, False, key_name=name)
    if flags["is_json"]:
        print(json.dumps({"deleted": name, "entity_path": entity or None}))
    else:
        print(f"Deleted the rule '{name}'.")


def _ask(
    flags: dict[str, Any],
    operation: str,
    entity: str,
    with_keys: bool,
    **arguments: str,
) -> Any:
    """The server's answer, with connection strings in place of keys."""
    from twinbus.cli.access_rules import with_connection_strings
    from twinbus.cli.administration import ask
    from twinbus.cli.server_choice import chosen_server

    server = chosen_server(flags)
    asked = {"path": entity, **arguments, **({"with_keys": "yes"} if with_keys else {})}
    answer = ask(server, operation, asked)
    return with_connection_strings(answer, server) if with_keys else answer


def _show(answer: Any, flags: dict[str, Any]) -> None:
    from twinbus.cli.access_rules import print_rules

    if flags["is_json"]:
        print(json.dumps(answer, indent=2))
    else:
        print_rules(answer if isinstance(answer, list) else [answer])

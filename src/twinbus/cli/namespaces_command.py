"""`twinbus namespaces`: lists, makes and removes namespaces of a running server.

The commands need the Manage right on the default namespace. A key is printed when its
namespace is made, and otherwise only if that is asked for.
"""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples, group
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.flags import takes

_PATH: Final = "/$namespaces"

app = group(
    "namespaces",
    "Manage further namespaces of one server: each has its own entities and keys.",
    examples(
        "twinbus namespaces create shop",
        "twinbus namespaces list",
        "twinbus namespaces delete shop --yes",
    ),
)

Name = Annotated[str, typer.Argument(help="Name of the namespace.", metavar="NAME")]
Ports = Annotated[
    list[int] | None,
    typer.Option(
        "--own-port",
        metavar="PORT",
        help="A port for this namespace alone, for clients that do not use its host "
        "name; 0: any free one. May be repeated.",
        show_default=False,
    ),
]


@app.command(
    "list",
    epilog=examples("twinbus namespaces list", "twinbus namespaces list --json"),
)
@takes(*SERVER)
def _list(**flags: Any) -> None:
    """List the namespaces of the server, the default one first."""
    from twinbus.cli.namespace_tables import print_namespaces

    found = _ask(flags, "GET", _PATH)["namespaces"]
    if flags["is_json"]:
        print(json.dumps(found, indent=2))
    else:
        print_namespaces(found)


@app.command(
    "show",
    epilog=examples(
        "twinbus namespaces show shop",
        "twinbus namespaces show shop --show-keys",
        "twinbus namespaces show shop --json",
    ),
)
@takes(*SERVER)
def _show(
    name: Name,
    with_keys: Annotated[
        bool,
        typer.Option(
            "--show-keys",
            help="Print its connection string. Keep it out of logs.",
        ),
    ] = False,
    **flags: Any,
) -> None:
    """Show one namespace."""
    path = f"{_of(name)}?keys=yes" if with_keys else _of(name)
    _print_one(_ask(flags, "GET", path), flags)


@app.command(
    "create",
    epilog=examples(
        "twinbus namespaces create shop",
        "twinbus namespaces create shop --own-port 0",
        "twinbus namespaces create shop --json",
    ),
)
@takes(*SERVER)
def _create(name: Name, own_ports: Ports = None, **flags: Any) -> None:
    """Create a namespace with a root key of its own, and print its connection string.

    Clients reach it by a host name that begins with its name, such as
    shop.example.com, or by a port of its own.
    """
    wanted: dict[str, Any] = {"name": name}
    if own_ports:
        wanted["ports"] = own_ports
    _print_one(_ask(flags, "POST", _PATH, wanted), flags)


@app.command(
    "delete",
    epilog=examples("twinbus namespaces delete shop --yes"),
)
@takes(*SERVER)
def _delete(name: Name, is_sure: Yes = False, **flags: Any) -> None:
    """Delete a namespace, with all its entities, messages and keys."""
    if not is_sure:
        make_sure("delete", f"the namespace '{name}' with all its messages")
    answer = _ask(flags, "DELETE", _of(name))
    if flags["is_json"]:
        print(json.dumps(answer))
    else:
        print(f"Deleted the namespace '{answer['deleted']}'.")


def _of(name: str) -> str:
    from urllib.parse import quote

    return f"{_PATH}/{quote(name, safe='')}"


def _ask(
    flags: dict[str, Any], method: str, path: str, content: object = None
) -> dict[str, Any]:
    from twinbus.cli.own_requests import ask_own

    answer: dict[str, Any] = ask_own(flags, method, path, content)
    return answer


def _print_one(shown: dict[str, Any], flags: dict[str, Any]) -> None:
    from twinbus.cli.namespace_tables import print_namespaces, with_connection_string
    from twinbus.cli.server_choice import chosen_server

    shown = with_connection_string(shown, chosen_server(flags))
    if flags["is_json"]:
        print(json.dumps(shown, indent=2))
        return
    print_namespaces([shown])
    if string := shown.get("connection_string"):
        # Not in the table, which would break it into lines.
        print(f"connection string:\n  {string}")

"""`twinbus faults`: sets, lists and clears faults of a running server, for tests.

The server decides what is allowed, and words its refusals.
"""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples, group
from twinbus.cli.completion import entity_paths, one_of
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.flags import takes

_PATH: Final = "/$faults"

Effect = Annotated[
    str,
    typer.Argument(
        metavar="EFFECT",
        help="refuse, busy, drop or unanswered, for operations of clients; slow, "
        "failing or gone, for a store.",
        autocompletion=one_of(
            *("refuse", "busy", "drop", "unanswered", "slow", "failing", "gone")
        ),
    ),
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        metavar="NAME",
        help="send, receive, manage or connect; may be repeated. Default: the first "
        "three.",
        autocompletion=one_of("send", "receive", "manage", "connect"),
    ),
]
Entity = Annotated[
    str | None,
    typer.Option(
        "--entity",
        metavar="PATTERN",
        help="Which entities, such as 'orders-*'.",
        autocompletion=entity_paths,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="PATTERN", help="Which stores, such as '*messages.sqlite3'."
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", metavar="PATTERN", help="Which namespaces."),
]
Lasts = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="DURATION", help="How long. Default: until it is cleared."
    ),
]
Probability = Annotated[
    float | None,
    typer.Option(
        "--probability", metavar="P", help="How many operations it hits, 0 to 1."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help="With the same seed it hits the same ones."
    ),
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", metavar="DURATION", help="slow: longer by so much."),
]
Rate = Annotated[
    int | None,
    typer.Option("--rate", metavar="N", help="slow: so many messages per second."),
]
Number = Annotated[
    int | None,
    typer.Argument(
        metavar="NUMBER", help="Of the fault. Default: all.", show_default=False
    ),
]

app = group(
    "faults",
    "Make a running server fail on purpose, for tests. It needs --allow-faults.",
    examples(
        "twinbus faults set refuse --operation send --entity 'orders*' --for 30s",
        "twinbus faults list",
        "twinbus faults clear",
    ),
)


@app.command(
    "set",
    epilog=examples(
        "twinbus faults set refuse --operation send --entity orders --for 30s",
        "twinbus faults set unanswered --operation send --probability 0.2 --seed 7",
        "twinbus faults set slow --delay 0.5s",
        "twinbus faults set gone --store '*messages.sqlite3' --for 1m",
    ),
)
@takes(*SERVER)
def _set(
    effect: Effect,
    operations: Operations = None,
    entity: Entity = None,
    store: Store = None,
    namespace: Namespace = None,
    lasts: Lasts = None,
    probability: Probability = None,
    seed: Seed = None,
    delay: Delay = None,
    rate: Rate = None,
    **flags: Any,
) -> None:
    """Set a fault. Prints its number, by which it is cleared."""
    parts = {
        "effect": effect,
        "operations": operations,
        "entity": entity,
        "store": store,
        "namespace": namespace,
        "for": lasts,
        "probability": probability,
        "seed": seed,
        "delay": delay,
        "rate": rate,
    }
    given = {name: value for name, value in parts.items() if value is not None}
    fault = _ask(flags, "POST", _PATH, given)
    if flags["is_json"]:
        print(json.dumps(fault, indent=2))
    else:
        print(f"Fault {fault['number']} is set.")


@app.command(
    "list", epilog=examples("twinbus faults list", "twinbus faults list --json")
)
@takes(*SERVER)
def _list(**flags: Any) -> None:
    """List the faults that are set."""
    from twinbus.cli.fault_tables import print_faults

    faults = _ask(flags, "GET", _PATH)["faults"]
    if flags["is_json"]:
        print(json.dumps(faults, indent=2))
    elif faults:
        print_faults(faults)
    else:
        print("No fault is set.")


@app.command("clear", epilog=examples("twinbus faults clear", "twinbus faults clear 3"))
@takes(*SERVER)
def _clear(number: Number = None, **flags: Any) -> None:
    """Clear one fault, or all."""
    path = _PATH if number is None else f"{_PATH}/{number}"
    cleared = _ask(flags, "DELETE", path)["faults"]
    if flags["is_json"]:
        print(json.dumps(cleared, indent=2))
    else:
        noun = "fault" if len(cleared) == 1 else "faults"
        print(f"Cleared {len(cleared)} {noun}.")


def _ask(flags: dict[str, Any], method: str, path: str, content: Any = None) -> Any:
    from twinbus.cli.own_requests import ask_own, warn_of_missing

    answer = ask_own(flags, method, path, content)
    warn_of_missing(answer)
    return answer

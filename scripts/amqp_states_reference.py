"""Writes docs/reference/amqp-states.md from the tables in twinbus/amqp/state.py.

A test compares the page with what this would write, so the diagrams cannot fall
behind the code. An arrow reads: who takes the step (`we` or `peer`), and which.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from twinbus.amqp import state

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "amqp-states.md"

OPENING = """\
# States of connections, sessions and links

Every legal step of the AMQP engine, for both roles. A step without an arrow is illegal:
a protocol error if the peer makes it, a misuse if we do. Any error ends the connection.

This page is generated from the tables of `src/twinbus/amqp/state.py` by
`scripts/amqp_states_reference.py`.
"""

WHO = {"RECEIVE": "peer", "SEND": "we"}

Transitions = Mapping[tuple[Enum, Enum], Enum]


def arrow(source: Enum, step: Enum, target: Enum) -> str:
    verb, _, what = step.name.partition("_")
    return f"    {source.name} --> {target.name}: {WHO[verb]}, {what.lower()}\n"


def diagram(title: str, transitions: Transitions) -> str:
    sources = [source for source, _ in transitions]
    ends = [target for target in transitions.values() if target not in sources]
    lines = [f"    [*] --> {sources[0].name}\n"]
    lines += [arrow(*pair, target) for pair, target in transitions.items()]
    lines += [f"    {end.name} --> [*]\n" for end in dict.fromkeys(ends)]
    body = "".join(lines)
    return f"\n## {title}\n\n```mermaid\nstateDiagram-v2\n{body}```\n"


def page() -> str:
    return (
        OPENING
        + diagram("Connection", state.CONNECTION)
        + diagram("Session", state.SESSION)
        + diagram("Link", state.LINK)
    )


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())

"""Forward targets: clients give a path, or a URI of the namespace.

Python and .NET send `sb://host[:port]/orders`. A description keeps the text unchanged,
because clients compare what they read with what they wrote; the bus uses the path in
it.
"""

from urllib.parse import unquote


def forward_path(target: str) -> str:
    """The entity path in a forward target; empty if there is none."""
    _, separator, rest = target.partition("://")
    if separator:
        target = rest.partition("/")[2].partition("?")[0]
        target = unquote(target)
    return target.strip("/")

"""Names of namespaces: each is the first label of a host name."""

import re
from typing import Final

from twinbus.errors import ArgumentError
from twinbus.limits import NAMESPACE_NAME_CHARACTERS

_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


def check_namespace_name(name: str) -> None:
    """Raises ArgumentError if a new namespace cannot have this name."""
    if len(name) > NAMESPACE_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"'{name[:80]}' cannot be the name of a namespace. It may have up to "
            f"{NAMESPACE_NAME_CHARACTERS} letters, digits and hyphens, begins with a "
            "letter and does not end with a hyphen: clients use it in a host name."
        )

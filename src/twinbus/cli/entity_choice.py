"""Which entities a command shows: those of the paths and patterns it is given."""

import re
from fnmatch import fnmatchcase
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.similar_paths import meant_instead

_WILD: Final = re.compile(r"[*?\[]")


def chosen_entities(
    entities: list[dict[str, Any]], patterns: list[str]
) -> list[dict[str, Any]]:
    """Those that match one of the patterns. Raises Failure if a path, which is no
    pattern, matches none."""
    for path in patterns:
        known = [entity["path"] for entity in entities]
        if not _WILD.search(path) and path.lower() not in map(str.lower, known):
            raise Failure(
                f"There is no entity '{path}': 'twinbus entities list' shows those "
                f"that exist. {meant_instead(path, known)}",
                exit_codes.NOT_FOUND,
            )
    wanted = [pattern.lower() for pattern in patterns]
    return [
        entity
        for entity in entities
        if not wanted
        or any(fnmatchcase(entity["path"].lower(), pattern) for pattern in wanted)
    ]

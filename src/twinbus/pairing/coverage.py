"""Which entities a pair covers: patterns of paths, in any letter case (P12)."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase


def covers_any(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function: does a path match one of the patterns? Without patterns, all do."""
    lower = [pattern.lower() for pattern in patterns] or ["*"]
    return lambda path: any(fnmatchcase(path.lower(), pattern) for pattern in lower)

"""Which entities a pair covers: patterns of paths, in any letter case (P12)."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase


def covers_any(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path fits one of the patterns; all of them if there is none."""
    lower = [pattern.lower() for pattern in patterns] or ["*"]
    return lambda path: any(fnmatchcase(path.lower(), pattern) for pattern in lower)

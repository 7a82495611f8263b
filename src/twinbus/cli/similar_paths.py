"""Finds the path that was meant by one that does not exist."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_SUBSCRIPTIONS: Final = re.compile("/subscriptions?/")
_ENOUGH: Final = 0.6
"""How much of two paths must be the same."""


def meant_instead(path: str, known: Iterable[str]) -> str:
    """A question that names the most similar path; empty if none is similar. The name
    of a subscription alone means it if there is only one of that name."""
    by_key = {_key(each): each for each in known}
    wanted = _key(path)
    if wanted in by_key:
        return _question(by_key[wanted])
    found = [each for each in by_key if each.endswith(f"/{wanted}")]
    if len(found) != 1:
        found = get_close_matches(wanted, list(by_key), 1, _ENOUGH)
    return _question(by_key[found[0]]) if found else ""


def _key(path: str) -> str:
    """What people leave out of a path, and mix up in it, does not count."""
    return _SUBSCRIPTIONS.sub("/", path.lower())


def _question(path: str) -> str:
    return f"Did you mean '{path}'?"

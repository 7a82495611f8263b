"""The written list of failures that are known, and the verdict about a run.

A run is good if what failed is exactly what the list says of the tests that ran: a
listed test that passes is as wrong as one that fails and is not listed. The list is
short on purpose, and each entry has a reason that can be read on the page about
compatibility. Nothing here knows how the tests are run.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "known.toml"
ENTRIES_MAX = 5


class BadList(Exception):
    """The list cannot be used; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong with a run, by names of tests; all empty: nothing."""

    failed: tuple[str, ...]
    listed_but_not_failed: tuple[str, ...]
    listed_but_unknown: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        wrong = (self.failed, self.listed_but_not_failed, self.listed_but_unknown)
        return not any(wrong)


def known_failures(file: Path = FILE) -> dict[str, str]:
    """Names of tests with the reason for their failure."""
    document = tomllib.loads(file.read_text())
    entries = document.pop("test", [])
    if document:
        raise BadList(f"{file}: {', '.join(document)}: only [[test]] is known")
    if len(entries) > ENTRIES_MAX:
        raise BadList(
            f"{file} lists {len(entries)} tests and may list {ENTRIES_MAX}: "
            "mend the bus instead"
        )
    for entry in entries:
        texts = [entry.get("name"), entry.get("reason")]
        if len(entry) != 2 or not all(isinstance(text, str) and text for text in texts):
            raise BadList(f"{file}: {entry} must have a name and a reason, and no more")
    return {entry["name"]: entry["reason"] for entry in entries}


def judge(
    tests: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, str],
    *,
    is_whole: bool,
) -> Verdict:
    """Compare a run with the list; `is_whole`: it left out no test."""
    return Verdict(
        failed=tuple(
            name
            for name, test in tests.items()
            if test["outcome"] == "failed" and name not in known
        ),
        listed_but_not_failed=tuple(
            name
            for name in known
            if name in tests and tests[name]["outcome"] != "failed"
        ),
        listed_but_unknown=tuple(
            name for name in known if is_whole and name not in tests
        ),
    )

"""The written list of failures that are known, and the verdict about a run.

A run is good if what failed is exactly what the list says of the tests that ran: a
listed test that passes is as wrong as one that fails and is not listed. The list is
short on purpose, and each entry has a reason that can be read on the page about
compatibility. Nothing here knows how the tests are run.

A set-up other than the usual one may have a list of its own, `known-NAME.toml`, of what
it does differently because a row of the requirements says so; each entry names it. Some
of these tests pass by luck, such as a message that gets into fragment 0: they may.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "known.toml"
ENTRIES_MAX = 5

_ROW = re.compile(r"[TA]\d{1,2}")


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


def known_on(setup: str) -> dict[str, str]:
    """What is known to fail on a set-up: everywhere, and there alone."""
    own = FILE.with_name(f"known-{setup}.toml")
    return {**known_failures(), **(differences(own) if own.exists() else {})}


def lucky_on(setup: str) -> frozenset[str]:
    """Names of the listed tests that pass by luck."""
    own = FILE.with_name(f"known-{setup}.toml")
    entries = _differences(own) if own.exists() else []
    return frozenset(entry["name"] for entry in entries if entry.get("luck"))


def known_failures(file: Path = FILE) -> dict[str, str]:
    """Names of tests with the reason for their failure, whatever the set-up is."""
    entries = _entries(file, "name", "reason")
    if len(entries) > ENTRIES_MAX:
        raise BadList(
            f"{file} lists {len(entries)} tests and may list {ENTRIES_MAX}: "
            "mend the bus instead"
        )
    return {entry["name"]: entry["reason"] for entry in entries}


def differences(file: Path) -> dict[str, str]:
    """The same for one set-up: the reason begins with the row that says so."""
    entries = _differences(file)
    return {entry["name"]: f"{entry['row']}: {entry['reason']}" for entry in entries}


def _differences(file: Path) -> list[dict[str, Any]]:
    entries = _entries(file, "name", "reason", "row")
    for entry in entries:
        if not _ROW.fullmatch(entry["row"]):
            raise BadList(f"{file}: {entry['row']!r} is no row, such as T6 or A3")
    return entries


def _entries(file: Path, *fields: str) -> list[dict[str, Any]]:
    document = tomllib.loads(file.read_text())
    entries: list[dict[str, Any]] = document.pop("test", [])
    if document:
        raise BadList(f"{file}: {', '.join(document)}: only [[test]] is known")
    for entry in entries:
        texts = [entry.get(field) for field in fields]
        is_whole = all(isinstance(text, str) and text for text in texts)
        others = entry.keys() - {*fields} - ({"luck"} if "row" in fields else set())
        if others or not is_whole:
            raise BadList(f"{file}: {entry} must have {', '.join(fields)}, and no more")
    return entries


def judge(
    tests: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, str],
    *,
    is_whole: bool,
    lucky: Collection[str] = (),
) -> Verdict:
    """Compare a run with the list; `is_whole`: it left out no test; `lucky`: listed
    tests that may pass."""
    return Verdict(
        failed=tuple(
            name
            for name, test in tests.items()
            if test["outcome"] == "failed" and name not in known
        ),
        listed_but_not_failed=tuple(
            name
            for name in known
            if name in tests
            and tests[name]["outcome"] != "failed"
            and name not in lucky
        ),
        listed_but_unknown=tuple(
            name for name in known if is_whole and name not in tests
        ),
    )

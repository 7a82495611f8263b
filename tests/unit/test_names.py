"""The rules of docs/STYLE.md about names, as a test: of files, classes and tests."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from unit.tree import (
    FILES,
    OURS,
    PACKAGE,
    ROOT,
    TESTS,
    Function,
    classes,
    functions,
    parsed,
    public_names,
    shown,
    words,
)

UNIT = ROOT / "tests" / "unit"

BANNED_WORDS_OF_FILES = {
    *("util", "utils", "helper", "helpers", "common", "misc"),
    *("manager", "managers", "handler", "handlers"),
}
# The vocabulary of docs/STYLE.md: `settle`, `Transaction` or `ChangeSet`, `link`.
BANNED_WORDS = {"ack", "nack", "tx", "consumer"}
# Which of the two kinds is meant must be said.
BANNED_CLASSES = {"Session", "Lock"}

# Folders of unit tests that mirror something else than their namesake in src/twinbus.
MIRRORED = {
    "scripts": ROOT / "scripts",
    "conformance": ROOT / "conformance",
    # `spark` is the package of tests/spark.
    "spark_side": PACKAGE / "spark",
}
# Tests of something that is not one module.
TOPICS = {
    "test_architecture.py": "imports of all packages",
    "test_names.py": "names of all files, classes and tests",
    "test_tidy.py": "texts and functions of all files",
    "test_actions.py": "SQL actions, from their text to the change of a message",
    "test_page.py": "the page about rules",
    "test_reader_leases.py": "reader leases, from a request to the store",
    "test_transactions.py": "transactions on links of all kinds",
}

# A name that means two things. Whoever renames one of them removes the line; no line
# is added.
SHARED_NAMES = {
    # AMQP's words for its own types, beside those of Service Bus.
    *("Coordinator", "Message", "SessionState"),
    # Two faces of one thing, as in the vendor's SDK: asynchronous and not.
    *("PairedNamespaceClient", "PairedServiceBusSender"),
    # Of the server, or of its store.
    "Holder",
}


def stems(name: str) -> set[str]:
    """Words without their endings: `senders`, `sender` and `sending` have one stem."""
    return {re.sub(r"(s|ing|er|or|ed|e)+$", "", word) for word in words(name)}


def mirrored(folder: Path) -> Path:
    """The folder whose modules the tests of a folder are about."""
    first, *rest = folder.relative_to(UNIT).parts or ("",)
    return MIRRORED.get(first, PACKAGE / first).joinpath(*rest)


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*") if path.suffix in ("", ".py")}


def is_about_a_module(test: Path) -> bool:
    """`test_window_refill.py` is about the module, or the package, `window`."""
    named = test.stem.removeprefix("test_").split("_")
    known = modules(mirrored(test.parent))
    return any("_".join(named[:end]) in known for end in range(len(named), 0, -1))


def test_files_are_named_after_nouns_of_ours() -> None:
    offences = [
        shown(path)
        for path in FILES
        if BANNED_WORDS_OF_FILES & set(re.split(r"[^a-z]+", shown(path).lower()))
    ]
    assert offences == []


def test_a_file_with_one_class_is_named_after_it() -> None:
    offences = {
        shown(path): found[0]
        for path in OURS
        if len(found := public_names(path, ast.ClassDef)) == 1
        and not public_names(path, ast.FunctionDef, ast.AsyncFunctionDef)
        and not stems(path.stem) & stems(found[0])
    }
    assert offences == {}


def test_public_classes_have_names_of_their_own() -> None:
    places = defaultdict(list)
    for path in OURS:
        for name in public_names(path, ast.ClassDef):
            places[name].append(shown(path))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: shared[name] for name in shared.keys() - SHARED_NAMES} == {}
    assert shared.keys() >= SHARED_NAMES, "remove the names that are shared no more"


def test_names_are_of_the_vocabulary() -> None:
    offences = [
        f"{shown(path)}: {node.name}"
        for path in OURS
        for node in (*functions(parsed(path)), *classes(parsed(path)))
        if BANNED_WORDS & words(node.name)
    ]
    assert offences == []


def test_classes_say_which_lock_and_which_session() -> None:
    offences = [
        f"{shown(path)}: {node.name}"
        for path in OURS
        for node in classes(parsed(path))
        if node.name in BANNED_CLASSES
    ]
    assert offences == []


def test_unit_tests_mirror_the_sources() -> None:
    tests = [path for path in TESTS if path.is_relative_to(UNIT)]
    tests = [path for path in tests if path.name.startswith("test_")]
    assert Path(__file__) in tests
    astray = [path for path in tests if not is_about_a_module(path)]
    assert [shown(path) for path in astray if path.name not in TOPICS] == []
    assert {path.name for path in astray} == TOPICS.keys(), "remove the topics not used"


@pytest.mark.parametrize(
    ("test", "is_one"),
    [
        ("broker/test_window.py", True),
        ("broker/test_window_refill.py", True),
        ("store/test_rows.py", True),
        ("scripts/test_cli_reference.py", True),
        ("spark_side/portable/test_allowance.py", True),
        ("broker/test_windows.py", False),
        ("store/test_expiry_bucket.py", False),
        ("nowhere/test_window.py", False),
    ],
)
def test_a_unit_test_is_about_a_module(test: str, is_one: bool) -> None:
    assert is_about_a_module(UNIT / test) == is_one


def test_names_of_tests_are_sentences() -> None:
    offences = [
        f"{shown(path)}: {function.name}"
        for path in TESTS
        for function in functions(parsed(path))
        if isinstance(function, Function)
        and function.name.startswith("test_")
        and len(words(function.name)) < 3
    ]
    assert offences == []

"""The list of known failures is short, has reasons, and is checked."""

import runpy
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "conformance" / "known.py"
SCRIPT = runpy.run_path(str(FILE))
judge, known_failures, known_on, differences, BadList = (
    SCRIPT[name]
    for name in ("judge", "known_failures", "known_on", "differences", "BadList")
)

RUN = {
    "a": {"outcome": "passed"},
    "b": {"outcome": "failed"},
    "c": {"outcome": "skipped"},
}


def listed(folder: Path, text: str) -> Path:
    file = folder / "known.toml"
    file.write_text(text)
    return file


def entry(number: int) -> str:
    return f'[[test]]\nname = "test {number}"\nreason = "because"\n'


def test_our_own_list_can_be_read() -> None:
    assert all(known_failures().values())


@pytest.mark.parametrize("setup", ["one", "postgres", "partitioned", "brokers"])
def test_the_list_of_a_set_up_has_what_is_known_everywhere(setup: str) -> None:
    assert known_on(setup).items() >= known_failures().items()


def test_differences_of_a_set_up_name_their_row(tmp_path: Path) -> None:
    file = listed(tmp_path, entry(1) + 'row = "T15"\n')
    assert differences(file) == {"test 1": "T15: because"}
    for row in ("", 'row = ""\n', 'row = "somewhere"\n'):
        with pytest.raises(BadList):
            differences(listed(tmp_path, entry(1) + row))


def test_a_test_that_passes_by_luck_is_good() -> None:
    known = {"b": "because", "a": "T15: because"}
    assert judge(RUN, known, is_whole=True, lucky={"a"}).is_good
    assert not judge(RUN, known, is_whole=True).is_good


def test_names_come_with_their_reasons(tmp_path: Path) -> None:
    assert known_failures(listed(tmp_path, entry(1))) == {"test 1": "because"}


def test_a_sixth_entry_is_refused(tmp_path: Path) -> None:
    five = "".join(map(entry, range(5)))
    assert len(known_failures(listed(tmp_path, five))) == 5
    with pytest.raises(BadList, match="lists 6 tests and may list 5"):
        known_failures(listed(tmp_path, five + entry(6)))


@pytest.mark.parametrize(
    "text",
    [
        '[[test]]\nname = "x"\n',
        '[[test]]\nname = "x"\nreason = ""\n',
        '[[test]]\nname = "x"\nreason = "y"\nmore = 1\n',
        "[tests]\n",
    ],
)
def test_entries_without_a_reason_or_with_more_are_refused(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(BadList):
        known_failures(listed(tmp_path, text))


def test_what_failed_and_is_not_listed_is_wrong() -> None:
    verdict = judge(RUN, {}, is_whole=True)
    assert (verdict.failed, verdict.is_good) == (("b",), False)


def test_a_listed_failure_is_good() -> None:
    assert judge(RUN, {"b": "because"}, is_whole=True).is_good


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_listed_test_that_did_not_fail_is_wrong(name: str) -> None:
    verdict = judge(RUN, {"b": "because", name: "because"}, is_whole=False)
    assert (verdict.listed_but_not_failed, verdict.is_good) == ((name,), False)


def test_a_listed_test_that_does_not_exist_is_wrong_if_all_ran() -> None:
    known = {"b": "because", "z": "because"}
    assert judge(RUN, known, is_whole=True).listed_but_unknown == ("z",)
    assert judge(RUN, known, is_whole=False).is_good

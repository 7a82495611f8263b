"""Every Python and shell block that a reader may copy is run, page by page."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twinbus.config.config import load_config

from .pages import ROOT, RUNNABLE, SHOWN, Block, blocks_of, programs_of
from .place import Place

README = ROOT / "README.md"
QUICK_START = ROOT / "docs" / "quickstart.md"
PAGES = [
    README,
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

# Pages whose code runs first, on the same bus, because a reader comes from there.
_READ_BEFORE = {
    QUICK_START: [README],
    ROOT / "docs" / "concepts" / "operation-log.md": [README],
    ROOT / "docs" / "howto" / "spark.md": [README],
    ROOT / "docs" / "howto" / "capture-and-replay.md": [README],
    ROOT / "docs" / "reference" / "bulk.md": [README],
}

# Run by a test of its own, because more than a bus is needed.
SURVIVING = ROOT / "docs" / "howto" / "surviving-a-machine.md"

# Each command of these starts Spark, which takes minutes beside other tests.
_OF_SPARK_JOBS = {
    ROOT / "docs" / "howto" / f"{name}.md"
    for name in ("capture-and-replay", "meter-and-audit", "report")
}

# Raised on purpose only: a page whose code does not run is a page nobody can trust.
# Three of them measure for minutes, or show what was decided.
NOT_RUN_LIMIT = 11

# Programs that a page may use and a machine need not have.
_PROGRAMS = ("curl", "sqlite3")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def as_parameter(page: Path) -> Any:
    why = "tests/spark runs the same jobs"
    marks = [pytest.mark.nightly(why)] if page in _OF_SPARK_JOBS else []
    return pytest.param(page, marks=marks)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [as_parameter(page) for page in PAGES if page != SURVIVING and programs_of(page)],
    ids=page_name,
)
def test_code_of_a_page_runs_as_printed(page: Path, place: Place) -> None:
    for read in (*_READ_BEFORE.get(page, ()), page):
        for block in programs_of(read):
            if not _needs_what_is_missing(block):
                place.run(block)


def _needs_what_is_missing(block: Block) -> bool:
    words = block.text.split() if block.language == "sh" else []
    return any(name in words and not shutil.which(name) for name in _PROGRAMS)


def test_there_is_code_to_run() -> None:
    run = {block.language for block in BLOCKS if block.is_run}
    assert run == set(RUNNABLE)


def test_every_block_says_what_it_is() -> None:
    known = (*RUNNABLE, *SHOWN)
    assert [block.place for block in BLOCKS if block.language not in known] == []


def test_few_blocks_are_not_run() -> None:
    marked = [f"{block.place}: {block.not_run}" for block in BLOCKS if block.not_run]
    assert len(marked) <= NOT_RUN_LIMIT, marked


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.language == "toml"],
    ids=lambda block: block.place,
)
def test_configuration_of_a_page_is_understood(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a file of a page may name.
    (tmp_path / "site-a.txt").write_text(
        "Endpoint=sb://site-a;SharedAccessKeyName=owner;SharedAccessKey=its-key"
    )
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bus.toml"
    file.write_text(block.text)
    config = load_config(file, {}, {})
    assert config.queues or config.namespaces or config.pair


def test_code_of_the_readme_fits_on_a_screen() -> None:
    [block] = (b for b in blocks_of(README) if b.language == "python")
    assert len(block.text.splitlines()) <= 20

"""Every Python and shell block that a reader may copy is run: page by page, each on a
bus of its own, and all pages one after the other, on one bus.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twinbus.config.config import load_config

from .pages import ROOT, RUNNABLE, SHOWN, Block, blocks_of, links_of, programs_of
from .place import Place

README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
QUICK_START = ROOT / "docs" / "quickstart.md"
PAGES = [
    README,
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

# Pages whose code runs first, on the same bus, because a reader comes from there. It is
# of use where a page goes on with a queue of the README.
_READ_BEFORE = {
    QUICK_START: [README],
    ROOT / "docs" / "howto" / "spark.md": [README],
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

# A queue or topic that a page makes in the default namespace of the reader's bus.
_MADE = re.compile(r"twinbus entities create (?:queue|topic) (\S+)(?!.* --context )")

# Programs that a page may use and a machine need not have.
_PROGRAMS = ("curl", "sqlite3")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_in_order_of_reading() -> list[Path]:
    """The README, and what the index of the documentation links, in its order."""
    linked = (INDEX.parent / link.partition("#")[0] for link in links_of(INDEX))
    return list(dict.fromkeys([README, *(page.resolve() for page in linked)]))


# What a newcomer's walk leaves to tests of their own: what takes too long for it, or
# needs more than a bus.
LEFT_OUT = {SURVIVING, *_OF_SPARK_JOBS}
WALK = [page for page in pages_in_order_of_reading() if page not in LEFT_OUT]


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
        read_page(read, place)


@pytest.mark.nightly("it takes seven minutes, and would be the longest test by far")
@pytest.mark.timeout(3600)
def test_a_newcomer_reads_one_page_after_the_other_on_one_bus(place: Place) -> None:
    for page in WALK:
        read_page(page, place)


def test_the_walk_begins_with_the_readme_and_leaves_out_what_is_listed() -> None:
    assert WALK[:2] == [README, QUICK_START]
    with_code = {page for page in PAGES if programs_of(page)}
    assert with_code - set(WALK) == LEFT_OUT


def test_no_two_pages_make_an_entity_of_the_same_name() -> None:
    made = Counter(
        name
        for page in PAGES
        for block in programs_of(page)
        if block.language == "sh"
        for name in _MADE.findall(block.text)
    )
    assert made.total() > 1
    assert [name for name, count in made.items() if count > 1] == []


def read_page(page: Path, place: Place) -> None:
    for block in programs_of(page):
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

"""The programs in examples/ run as their README says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ROOT, links_of
from .place import Place, clean_environment, run

EXAMPLES = ROOT / "examples"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    place.server("--config", str(EXAMPLES / "bus.toml"))
    yield place
    place.close()


def output_of(program: str, place: Place) -> list[str]:
    connection_string = place.server().connection_string
    environment = clean_environment() | {"TWINBUS_CONNECTION_STRING": connection_string}
    done = run([sys.executable, str(EXAMPLES / program)], place.folder, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_worker_makes_orders_and_sets_the_impossible_aside(place: Place) -> None:
    assert output_of("worker.py", place) == ["made coffee", "made tea"]
    first = output_of("resubmit_dead_letters.py", place)
    assert first == ["sent back a unicorn: Impossible"]


def test_generic_client_sends_and_receives(place: Place) -> None:
    pytest.importorskip("proton")
    assert output_of("generic_amqp.py", place) == ["half price"]


@pytest.mark.parametrize("name", ["test_orders.py", "test_events.py"])
def test_tests_with_a_bus_of_their_own_pass(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", str(EXAMPLES / name)]
    done = run(command, tmp_path, clean_environment())
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_every_example_is_listed() -> None:
    files = {file.name for file in EXAMPLES.iterdir() if file.is_file()}
    assert files - {"README.md"} == set(links_of(EXAMPLES / "README.md"))

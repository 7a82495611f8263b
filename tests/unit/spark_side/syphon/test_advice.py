"""When the Spark syphon says that the other one is quicker."""

import os

import pytest

from twinbus.spark.syphon.advice import advice, cores_of


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[2, 4]", 2),
        ("local[*]", os.cpu_count()),
        ("spark://host:7077", None),
        ("local-cluster[2,1,1024]", None),
        ("yarn", None),
    ],
)
def test_cores_are_those_of_the_master(master: str, cores: int | None) -> None:
    assert cores_of(master) == cores


def test_two_cores_are_never_enough_for_spark() -> None:
    for messages in (0, 1_000, 100_000, 100_000_000):
        assert advice(messages, 2) is not None


def test_many_cores_are_quicker_for_many_messages() -> None:
    assert advice(100_000, 32) is not None
    assert advice(10_000_000, 32) is None


def test_a_cluster_is_worth_it_beyond_its_start() -> None:
    assert advice(1_000, None) is not None
    assert advice(1_000_000, None) is None


def test_the_sentence_names_command_and_figures() -> None:
    told = advice(100_000, 2)
    assert told is not None
    for text in ("100,000", "`twinbus syphon --once`", "2 cores", "sessions"):
        assert text in told

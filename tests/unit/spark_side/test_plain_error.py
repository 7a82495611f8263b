"""Errors that Spark shows without a traceback of our code."""

import pickle
import traceback
from collections.abc import Iterator

import pytest

from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.data_loss import DataLoss
from twinbus.spark.option_reader import OptionError
from twinbus.spark.plain_error import each_plainly, plainly


def refuse() -> None:
    raise OptionError("'x' is wrong.")


def fail() -> None:
    raise KeyError("a bug")


@plainly
def call(what: object) -> None:
    assert callable(what)
    try:
        raise LookupError("something before")
    except LookupError:
        what()


@each_plainly
def count(most: int) -> Iterator[int]:
    yield from range(most)
    refuse()


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_a_plain_error_comes_alone() -> None:
    with pytest.raises(OptionError) as refused:
        call(refuse)
    assert "refuse" not in frames(refused.value)
    shown = "".join(traceback.format_exception(refused.value))
    assert "something before" not in shown
    assert shown.endswith("OptionError: 'x' is wrong.\n")


def test_what_was_yielded_before_is_not_lost() -> None:
    found: list[int] = []
    with pytest.raises(OptionError) as refused:
        found.extend(count(3))
    assert found == [0, 1, 2]
    assert "refuse" not in frames(refused.value)


def test_a_bug_shows_where_it_is() -> None:
    with pytest.raises(KeyError) as found:
        call(fail)
    assert frames(found.value)[-1] == "fail"


def test_errors_travel_between_processes() -> None:
    sent = BulkError("gone", condition="amqp:not-found", status=404, is_retryable=True)
    came = pickle.loads(pickle.dumps(sent))
    assert (str(came), came.status, came.is_retryable) == ("gone", 404, True)
    assert came.is_missing
    assert str(pickle.loads(pickle.dumps(DataLoss("lost")))) == "lost"

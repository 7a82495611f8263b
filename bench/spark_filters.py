"""`python -m bench.spark_filters`: a filter of a query, beside the option for the same.

`where sequence_number >= n` and the option `fromSequence` ask for the same messages:
the last tenth of a queue. Rounds take turns. The query may take at most twice as long
as the option if its filter is pushed down. If not, Spark reads the whole queue, which
is shown beside it. The exit code says whether it is good enough.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from bench.load_client import build_client
from bench.prerequisites import MissingPrerequisite
from bench.spark_reading import fill
from bench.spark_session import connection_string, credential, spark_session
from bench.tables import markdown_table
from bench.twinbus_server import TwinbusServer

RATIO_BAR = 2.0
"""Times that a pushed filter may take, to the option."""

_SETTING = "spark.sql.python.filterPushdown.enabled"
_WARM_UPS = 2

_OPTION = "fromSequence"
_PUSHED = "where, pushed down"
_WHOLE = "where, by Spark"


class Filters:
    """Three ways to the last messages of one queue."""

    def __init__(self, spark: SparkSession, named: str, queue: str, first: int) -> None:
        self._spark = spark
        self._credential = named
        self._queue = queue
        self._first = first

    def ways(self) -> dict[str, Callable[[], int]]:
        """By name; each says how many messages it had."""
        return {_OPTION: self._by_option, _PUSHED: self._pushed, _WHOLE: self._whole}

    def _by_option(self) -> int:
        return _size_of(self._read(fromSequence=str(self._first)))

    def _pushed(self) -> int:
        self._spark.conf.set(_SETTING, "true")
        try:
            return _size_of(self._read(pushFilters="true").where(self._condition))
        finally:
            self._spark.conf.unset(_SETTING)

    def _whole(self) -> int:
        return _size_of(self._read().where(self._condition))

    @property
    def _condition(self) -> str:
        return f"sequence_number >= {self._first}"

    def _read(self, **options: str) -> DataFrame:
        reader = self._spark.read.format("servicebus").options(**options)
        return reader.option("credential", self._credential).load(self._queue)


def _size_of(frame: DataFrame) -> int:
    """The bodies are read, too."""
    (row,) = frame.selectExpr("count(*) AS n", "sum(length(body)) AS size").collect()
    assert row["size"] > 0
    return int(row["n"])


def measure(messages: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each way."""
    found: dict[str, list[float]] = {}
    wanted = messages // 10
    with (
        spark_session() as spark,
        TwinbusServer() as server,
        credential(connection_string(server.target)) as named,
    ):
        fill(server, messages)
        queue = server.target.address
        ways = Filters(spark, named, queue, messages - wanted + 1).ways()
        for number in range(_WARM_UPS + rounds):
            for name, way in ways.items():
                began_at = time.monotonic()
                assert way() == wanted, name
                if number >= _WARM_UPS:
                    found.setdefault(name, []).append(time.monotonic() - began_at)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark_filters", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    try:
        build_client()
    except MissingPrerequisite as error:
        print(error, file=sys.stderr)
        return 2
    found = measure(given.messages, given.rounds)
    lines, ratios = [], {}
    for name, seconds in found.items():
        pairs = zip(seconds, found[_OPTION], strict=True)
        ratios[name] = median(one / option for one, option in pairs)
        spread = f"{min(seconds):.2f}..{max(seconds):.2f}"
        lines.append([name, f"{median(seconds):.2f}", spread, f"{ratios[name]:.2f}"])
    print(markdown_table(("way", "s", "spread", "to the option"), lines))
    if ratios[_PUSHED] > RATIO_BAR:
        print(f"not good enough: {ratios[_PUSHED]:.2f} times", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

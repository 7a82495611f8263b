"""Which of the two syphons brings a backlog back sooner, as a rule of thumb.

The in-process syphon is one process and starts at once. The Spark job starts slowly,
and needs more of the processor for each message, but uses all the cores that it gets.
The figures are those of docs/benchmarks.md, where both share two cores with the two
namespaces; what counts is their ratio.
"""

import math
import os
import re
from typing import Final

_IN_PROCESS_PER_SECOND: Final = 15_000
_SPARK_PER_SECOND_AND_CORE: Final = 2_700
_SPARK_START_SECONDS: Final = 10
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?")

_WORTH_A_WORD_SECONDS: Final = 2
"""Nobody is glad to be told about less."""


def cores_of(master: str) -> int | None:
    """How many cores a local Spark has; None: a cluster, whose size is not known."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    if found[1] is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def advice(messages: int, cores: int | None) -> str | None:
    """A sentence if the in-process syphon would be quicker, otherwise None."""
    in_process = messages / _IN_PROCESS_PER_SECOND
    # A cluster is taken for large: then only its start counts.
    drain = messages / (_SPARK_PER_SECOND_AND_CORE * cores) if cores else 0.0
    by_spark = _SPARK_START_SECONDS + drain
    if by_spark - in_process < _WORTH_A_WORD_SECONDS:
        return None
    place = "on a cluster" if cores is None else f"on {cores} cores"
    return (
        f"{messages:,} messages wait. `twinbus syphon --once` would bring them back "
        f"sooner: in about {math.ceil(in_process)} s, Spark {place} in about "
        f"{math.ceil(by_spark)} s or more. Spark keeps the order within sessions."
    )

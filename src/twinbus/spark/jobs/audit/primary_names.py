"""Which namespace the senders of a pair mean.

A sender knows the primary by its name in the pair, a store by the name that its server
was given; they need not be the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.operation_logs import OperationLogs
from twinbus.spark.jobs.segment_files import SENDER, OperationLogError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def primary_names(
    logs: OperationLogs, rows: "DataFrame", given: str | None
) -> dict[str, str]:
    """The namespace of the stores for each name that senders use. Raises
    OperationLogError if it cannot be told."""
    there = logs.namespaces
    meant = {one.namespace for one in logs.sources if one.kind == SENDER}
    if not there:
        raise OperationLogError(
            "There are send logs only, and no log of a message store: give the folders "
            "of both sites, too."
        )
    if given is not None:
        if given not in there:
            raise OperationLogError(
                f"There is no log of the primary '{given}'; the folders have logs of "
                f"{_listed(there)}."
            )
        return dict.fromkeys(meant, given)
    found = {name: _same(name, there) for name in meant}
    if None not in found.values():
        return {name: str(place) for name, place in found.items()}
    # Backlog queues are at the secondary.
    held = rows.where(meaning.IS_BACKLOG).select("namespace").distinct().collect()
    left = sorted(set(there) - {row["namespace"] or "" for row in held})
    if len(there) == 1 and len(logs.stores()) > 1:
        # Both sites have no name, or the same one.
        left = list(there)
    if len(left) != 1:
        strange = sorted(name for name, place in found.items() if place is None)
        raise OperationLogError(
            f"There is a send log of {_listed(strange)}, and logs of message stores of "
            f"{_listed(there)}: say which of these is the primary, or give its log."
        )
    return {name: left[0] if place is None else place for name, place in found.items()}


def _same(name: str, there: tuple[str, ...]) -> str | None:
    """A namespace of that name, or whose host begins with it."""
    wanted = name.lower()
    for one in there:
        if wanted in (one.lower(), one.lower().partition(".")[0]):
            return one
    return None


def _listed(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(f"'{name}'" for name in names)


def renamed_logs(logs: OperationLogs, names: Mapping[str, str]) -> OperationLogs:
    """The same logs, with what senders noted under the namespace that they mean."""

    def place(kind: str, namespace: str) -> str:
        return names[namespace] if kind == SENDER else namespace

    return replace(
        logs,
        sources=tuple(
            replace(one, namespace=place(one.kind, one.namespace))
            for one in logs.sources
        ),
        gaps=tuple(
            replace(one, namespace=place(one.kind, one.namespace)) for one in logs.gaps
        ),
    )


def renamed_rows(rows: "DataFrame", names: Mapping[str, str]) -> "DataFrame":
    """The same for rows. A store without a name has an empty one."""
    from pyspark.sql import functions as F

    name = F.expr("coalesce(namespace, '')")
    for meant, place in names.items():
        is_meant = F.expr(meaning.IS_SENDER) & (F.col("namespace") == meant)
        name = F.when(is_meant, F.lit(place)).otherwise(name)
    return rows.withColumn("namespace", name)

"""The quick weights of the audit's first pass say what the meanings of rows say."""

from itertools import product
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.row_weights import KINDS, WEIGHTS, counted, weighed
from twinbus.spark.jobs.meter.price_book import OPERATIONS

_MEANT = {
    "balance": meaning.BALANCE,
    "claims": (
        f"CASE WHEN {meaning.CLAIM} THEN -1 WHEN {meaning.CREATED} AND NOT "
        f"{meaning.IS_BACKLOG} AND {meaning.HAS_SEND_ID} THEN 1 ELSE 0 END"
    ),
    "claimed_detours": (
        f"CASE WHEN {meaning.DIVERTED} THEN 1 WHEN {meaning.BROUGHT_BACK} THEN -1 "
        "ELSE 0 END"
    ),
    "logged_detours": (
        f"CASE WHEN {meaning.RESTORED} THEN 1 WHEN {meaning.CREATED} AND "
        f"{meaning.IS_BACKLOG} THEN -1 ELSE 0 END"
    ),
    "arrivals": f"CAST({meaning.ARRIVED} AS INT)",
    "brought_back": f"CAST({meaning.BROUGHT_BACK} AS INT)",
}
_VALUES: dict[str, tuple[Any, ...]] = {
    "operation": tuple(sorted(OPERATIONS)),
    "result": ("ok", "unknown"),
    "source": ("store-1", "sender-1"),
    "entity": ("orders", "site-a/x-servicebus-transfer/0"),
    "entity_kind": ("queue", "topic", None),
    "subqueue": ("$deadletterqueue", None),
    "reason": ("TTLExpiredException", "Bad", None),
    "purpose": ("syphon", None),
    "message_uid": ("5e" * 16, "5e" * 24),
    "delivery_count": (None, 1, 2),
}


def every_kind_of_row(spark: SparkSession) -> tuple[list[tuple[Any, ...]], DataFrame]:
    """They, and as a frame with their numbers."""
    kinds = list(product(*_VALUES.values()))
    types = {"delivery_count": "int", "number": "int"}
    names = (*_VALUES, "number")
    schema = ", ".join(f"{name} {types.get(name, 'string')}" for name in names)
    listed = [(*kind, number) for number, kind in enumerate(kinds)]
    return kinds, spark.createDataFrame(listed, schema)


def test_every_kind_of_row_has_the_weights_that_it_means(spark: SparkSession) -> None:
    assert set(_MEANT) == set(WEIGHTS)
    kinds, rows = every_kind_of_row(spark)
    columns = ("number", *WEIGHTS)
    told = weighed(rows, tuple(WEIGHTS), number="number").select(*columns)
    quick = {row["number"]: tuple(row)[1:] for row in told.collect()}
    meant = rows.select(
        "number", *(F.expr(_MEANT[name]).alias(name) for name in WEIGHTS)
    ).collect()
    # What is left out counts for nothing.
    nothing = (0,) * len(WEIGHTS)
    wrong = [
        (kinds[row["number"]], quick.get(row["number"]), tuple(row)[1:])
        for row in meant
        if quick.get(row["number"], nothing) != tuple(row)[1:]
    ]
    assert not wrong
    assert {weight for those in quick.values() for weight in those} == {-1, 0, 1}


def test_every_kind_of_row_counts_at_its_entity_for_what_it_means(
    spark: SparkSession,
) -> None:
    assert set(meaning.COUNTED) == set(KINDS)
    kinds, rows = every_kind_of_row(spark)
    told = counted(rows).select("number", "kind", "balance").collect()
    quick = {row["number"]: (row["kind"], row["balance"]) for row in told}
    meant = rows.select(
        "number",
        F.expr(meaning.BALANCE).alias("balance"),
        *(F.expr(text).alias(name) for name, text in meaning.COUNTED.items()),
    ).collect()
    wrong = []
    for row in meant:
        named = [number for number, name in enumerate(KINDS) if row[name]]
        assert len(named) <= 1, f"{kinds[row['number']]} counts for several"
        expected = (named[0] if named else None, row["balance"])
        if quick[row["number"]] != expected:
            wrong.append((kinds[row["number"]], quick[row["number"]], expected))
    assert not wrong
    assert {kind for kind, _ in quick.values()} == {None, *range(len(KINDS))}

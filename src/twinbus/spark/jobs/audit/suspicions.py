"""A closer look at the messages of some buckets: what is wrong with each one.

A suspicion is what the rows of one message say by themselves. Whether it is a finding
depends on how far the logs reach, which `judgement.py` decides.
"""

from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.row_weights import BALANCE, KIND, is_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ABSENT: Final = "absent"
STRAY: Final = "stray"
DOUBLED: Final = "doubled"
UNSOURCED: Final = "unsourced"

_CLAIM: Final = is_kind("claimed")
_BROUGHT_BACK: Final = f"is_backlog AND subqueue IS NULL AND {is_kind('completed')}"

_PLACE: Final = {
    "claims": f"count_if({_CLAIM})",
    "diverts": f"count_if({_CLAIM} AND operation = 'divert')",
    "created": f"count_if({is_kind('sent', 'restored')})",
    "arrived": f"count_if({is_kind('arrived')})",
    "moved": f"count_if({is_kind('moved')})",
    "balance": f"sum({BALANCE})",
    "brought_back": f"count_if({_BROUGHT_BACK})",
    "buried": f"count_if({is_kind('dead_lettered')})",
    "claimed_at": f"max(IF({_CLAIM}, {meaning.CLAIMED_AT}, NULL))",
    "brought_back_at": f"max(IF({_BROUGHT_BACK}, occurred_at, NULL))",
    "last_at": "max(occurred_at)",
    "destination": "max(IF(is_backlog, destination, NULL))",
}
"""What a message did at one place."""

_MESSAGE: Final = {
    "there": "filter(places, p -> NOT p.is_backlog AND p.created > 0)",
    "is_waiting": (
        "exists(places, p -> p.is_backlog AND (p.balance > 0 OR p.buried > 0))"
    ),
    "lacking": (
        "filter(places, p -> NOT p.is_backlog AND p.claims > 0 AND p.created = 0)"
    ),
    "is_claimed": "exists(places, p -> p.claims > 0)",
    "is_sent_twice": "exists(places, p -> NOT p.is_backlog AND p.created > 1)",
    "left": "filter(places, p -> p.is_backlog AND p.brought_back > 0)",
    "wanted": (
        "transform(filter(places, p -> p.is_backlog AND p.destination IS NOT NULL), "
        "p -> lower(p.destination))"
    ),
}
"""What is known of a message from all of its places."""

_SUSPICION: Final = (
    "named_struct('suspicion', '{kind}', 'namespace', p.namespace, 'entity', p.entity, "
    "'found_at', CAST({found} AS STRING), 'at', {at}, 'is_diverted', {diverted}, "
    "'is_by_secondary', {by_secondary})"
)

_OF_THE_PLACE: Final = {
    "at": "p.last_at",
    "diverted": "false",
    "by_secondary": "false",
}

_SUSPICIONS: Final = (
    # Claimed, and nowhere: neither where it was sent to nor in the backlog.
    "IF(size(there) = 0 AND NOT is_waiting, transform(lacking, p -> "
    + _SUSPICION.format(
        kind=ABSENT,
        found="NULL",
        at="p.claimed_at",
        diverted="p.diverts > 0",
        by_secondary="false",
    )
    + "), array())",
    # Taken out of the backlog, and not at the primary. Claims would have told already.
    "IF(size(there) = 0 AND NOT is_claimed AND NOT is_waiting, transform(left, p -> "
    + _SUSPICION.format(
        kind=ABSENT,
        found="NULL",
        at="p.brought_back_at",
        diverted="true",
        by_secondary="true",
    )
    + "), array())",
    # Somewhere else than its sender, or the backlog, says.
    "IF(is_claimed OR size(wanted) > 0, transform(filter(there, p -> p.claims = 0 AND "
    "(is_claimed OR NOT array_contains(wanted, lower(p.entity)))), p -> "
    + _SUSPICION.format(
        kind=STRAY,
        found="concat(p.namespace, '/', p.entity)",
        **_OF_THE_PLACE,
    )
    + "), array())",
    # Sent twice, it comes twice to all places behind: the first one is told.
    "transform(filter(places, p -> NOT p.is_backlog AND (p.created > 1 OR "
    "(NOT is_sent_twice AND (p.created + p.arrived - p.moved > 1 OR "
    "(p.balance < 0 AND p.created + p.arrived > 0))))), p -> "
    + _SUSPICION.format(kind=DOUBLED, found="NULL", **_OF_THE_PLACE)
    + ")",
    "transform(filter(places, p -> p.balance < 0 AND p.created + p.arrived = 0), p -> "
    + _SUSPICION.format(kind=UNSOURCED, found="NULL", **_OF_THE_PLACE)
    + ")",
)


def suspicions_of(rows: "DataFrame") -> "DataFrame":
    """One row for each suspicion: message_uid, suspicion, namespace, entity (where the
    message should be), found_at, at, is_diverted, and by whose clock. `rows` is what
    `opened_rows` has."""
    from pyspark.sql import functions as F

    # Locks and renewals say nothing here.
    counted = rows.where(f"{KIND} IS NOT NULL AND NOT {is_kind('redelivered')}")
    told = counted.withColumn("is_backlog", F.expr(meaning.IS_BACKLOG))
    places = told.groupBy("message_uid", "namespace", "entity", "is_backlog").agg(
        *(F.expr(text).alias(name) for name, text in _PLACE.items())
    )
    named = F.struct("namespace", "entity", "is_backlog", *_PLACE)
    messages = places.groupBy("message_uid").agg(
        F.collect_list(named).alias("places"),
        # The entity that was meant, for those that went astray.
        F.max(F.expr("IF(claims > 0, struct(namespace, entity), NULL)")).alias("meant"),
    )
    # At once: Spark would analyse the whole plan again for each column.
    messages = messages.select(
        "*", *(F.expr(text).alias(name) for name, text in _MESSAGE.items())
    )
    found = F.expr(f"flatten(array({', '.join(_SUSPICIONS)}))")
    listed = messages.select(
        "message_uid", "meant", "wanted", F.explode(found).alias("s")
    )
    return listed.select(
        "message_uid",
        "s.suspicion",
        F.expr(
            f"IF(s.suspicion = '{STRAY}' AND meant IS NOT NULL, meant.namespace, "
            "s.namespace)"
        ).alias("namespace"),
        F.expr(
            f"IF(s.suspicion = '{STRAY}', coalesce(meant.entity, wanted[0]), s.entity)"
        ).alias("entity"),
        "s.found_at",
        "s.at",
        "s.is_diverted",
        "s.is_by_secondary",
    )

"""What a row counts for, in the digests and at its entity: the same as `row_meaning.py`
says, but quickly.

Every row of a log comes by here in both passes, so texts are compared once for each
row, and what follows from them is arithmetic on small numbers.
`tests/spark/test_audit_weights.py` holds both against each other.
"""

from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STEPS: Final = {
    # The most frequent ones first: they are compared in this order.
    **{"complete": 1, "send": 2, "arrive": 3, "divert": 4, "restore": 5},
    **{"receive_and_delete": 6, "expire": 7, "forward": 8, "schedule": 9},
    **{"activate": 10, "cancel": 11, "delete": 12},
}
_TOLD: Final = {
    "step": "CASE operation "
    + " ".join(f"WHEN '{name}' THEN {step}" for name, step in _STEPS.items())
    + " END",
    "is_sender": meaning.IS_SENDER,
    "is_backlog": meaning.IS_BACKLOG,
    "is_topic": "coalesce(entity_kind = 'topic', false)",
    "is_above": "subqueue IS NULL",
    "is_timed_out": "coalesce(reason = 'TTLExpiredException', false)",
    "is_syphoned": "coalesce(purpose = 'syphon', false)",
    "has_send_id": meaning.HAS_SEND_ID,
}

_SENT: Final = "step IN (2, 4, 5, 9)"
_CLAIMED: Final = "step IN (2, 4, 9)"
WEIGHTS: Final = {
    # meaning.BALANCE
    "balance": (
        "CASE WHEN is_sender THEN 0 WHEN step IN (1, 6, 7, 8, 10, 11, 12) THEN -1 "
        "WHEN step = 9 THEN 1 WHEN is_topic THEN 0 "
        "WHEN step = 3 THEN IF(is_above OR is_timed_out, 1, 0) ELSE 1 END"
    ),
    # meaning.CLAIM, and what came to a place where somebody may have claimed it.
    "claims": (
        f"CASE WHEN is_sender THEN IF({_CLAIMED}, -1, 0) "
        f"WHEN {_SENT} AND NOT is_backlog AND has_send_id THEN 1 ELSE 0 END"
    ),
    # meaning.DIVERTED and meaning.BROUGHT_BACK
    "claimed_detours": (
        "CASE WHEN is_sender THEN IF(step = 4, 1, 0) "
        "WHEN is_backlog AND is_above AND step IN (1, 6) THEN -1 ELSE 0 END"
    ),
    # meaning.RESTORED, and what came to the backlog.
    "logged_detours": (
        f"CASE WHEN is_sender THEN 0 WHEN is_backlog THEN IF({_SENT}, -1, 0) "
        "WHEN step = 5 OR (step = 2 AND is_syphoned) THEN 1 ELSE 0 END"
    ),
    # meaning.ARRIVED
    "arrivals": "CAST(NOT is_sender AND is_above AND step = 3 AS INT)",
    # meaning.BROUGHT_BACK
    "brought_back": (
        "CAST(NOT is_sender AND is_backlog AND is_above AND step IN (1, 6) AS INT)"
    ),
}
_KINDS: Final = {
    "claimed": f"is_sender AND {_CLAIMED}",
    "sent": f"NOT is_sender AND {_CLAIMED}",
    "restored": "NOT is_sender AND step = 5",
    "arrived": "NOT is_sender AND is_above AND step = 3",
    "completed": "NOT is_sender AND step IN (1, 6)",
    "expired": "NOT is_sender AND step = 7",
    "removed": "NOT is_sender AND step IN (11, 12)",
    "moved": "NOT is_sender AND step IN (8, 10)",
    "dead_lettered": "NOT is_sender AND NOT is_above AND step = 3",
    "redelivered": "NOT is_sender AND is_redelivered",
}
"""meaning.COUNTED"""

KINDS: Final = tuple(_KINDS)
_KIND: Final = (
    "CASE "
    + " ".join(f"WHEN {text} THEN {KINDS.index(name)}" for name, text in _KINDS.items())
    + " END"
)
KIND: Final = "kind"
BALANCE: Final = "balance"


def is_kind(*names: str) -> str:
    """Whether a row is one of these KINDS, as an expression; false if it is none."""
    numbers = ", ".join(str(KINDS.index(name)) for name in names)
    return f"coalesce({KIND} IN ({numbers}), false)"


def weighed(rows: "DataFrame", weights: tuple[str, ...], **more: str) -> "DataFrame":
    """The rows that count for anything: their weights, and other expressions."""
    from pyspark.sql import functions as F

    told = rows.where("result = 'ok'").select(
        *(F.expr(text).alias(name) for name, text in {**_TOLD, **more}.items())
    )
    # Most locks and all renewals end here.
    return told.where("step IS NOT NULL").select(
        *more, *(F.expr(WEIGHTS[name]).alias(name) for name in weights)
    )


def counted(rows: "DataFrame") -> "DataFrame":
    """All rows, and what each one counts for at its entity: `kind`, which of KINDS, if
    any, and `balance`."""
    from pyspark.sql import functions as F

    told = {
        **_TOLD,
        "step": f"IF(result = 'ok', {_TOLD['step']}, NULL)",
        "is_redelivered": (
            "result = 'ok' AND operation = 'lock' AND "
            "coalesce(delivery_count > 1, false)"
        ),
    }
    found = rows.select("*", *(F.expr(text).alias(name) for name, text in told.items()))
    balance = f"IF(step IS NULL, 0, {WEIGHTS['balance']})"
    return found.select(
        *rows.columns, F.expr(_KIND).alias(KIND), F.expr(balance).alias(BALANCE)
    )

"""The types of local transactions (AMQP 1.0 part 4).

A coordinator is the target of a control link; declare and discharge are the bodies of
messages sent to it; declared and transactional-state are delivery states.
"""

from dataclasses import dataclass

from twinbus.amqp.composite import (
    ANY,
    BINARY,
    BOOLEAN,
    COMPOSITE,
    SYMBOLS,
    composite,
)

UNKNOWN_ID = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
TIMEOUT = "amqp:transaction:timeout"


@composite(0x30, "amqp:coordinator:list", capabilities=SYMBOLS)
@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    capabilities: tuple[str, ...] | None = None


@composite(0x31, "amqp:declare:list", global_id=ANY)
@dataclass(frozen=True, slots=True, kw_only=True)
class Declare:
    global_id: object | None = None


@composite(0x32, "amqp:discharge:list", txn_id=BINARY, fail=BOOLEAN)
@dataclass(frozen=True, slots=True, kw_only=True)
class Discharge:
    txn_id: bytes
    fail: bool | None = None


@composite(0x33, "amqp:declared:list", txn_id=BINARY)
@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    txn_id: bytes


@composite(0x34, "amqp:transactional-state:list", txn_id=BINARY, outcome=COMPOSITE)
@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalState:
    txn_id: bytes
    outcome: object | None = None

"""Which brokers use a PostgreSQL catalog, before its format is changed under them."""

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from twinbus.store.base import StoreInUse
from twinbus.store.catalog import BrokerRecord
from twinbus.store.formats import POSTGRES_CATALOG, unready_brokers
from twinbus.store.postgres_session import PostgresSession
from twinbus.store.process_identity import is_running, is_visible, process_of_json
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("postgres_catalog.sql")

_LOOK_SECONDS: Final = 2.5
"""A broker announces itself every second; on another machine that is its only sign."""


def broker_record(row: tuple[Any, ...]) -> BrokerRecord:
    broker_uuid, address, beat, description = row
    return BrokerRecord(
        broker_uuid=bytes(broker_uuid),
        address=address,
        beat=beat,
        description=json.loads(description),
    )


async def refuse_to_leave_behind(
    session: PostgresSession, location: str, version: int
) -> None:
    """Raises StoreInUse if a broker that runs could not read that format."""
    before = await _unready(session, version)
    if not before:
        return
    await asyncio.sleep(_LOOK_SECONDS)
    for uuid, broker in (await _unready(session, version)).items():
        if _runs(broker, before.get(uuid)):
            name = broker.description.get("name", uuid.hex())
            raise StoreInUse(
                f"{location} is used by a broker with an older version of twinbus "
                f"({name}), which could not read format {version}. Stop it first."
            )


async def _unready(session: PostgresSession, version: int) -> dict[bytes, BrokerRecord]:
    records = map(broker_record, await session.rows(_SQL["brokers"]))
    unready = unready_brokers(records, POSTGRES_CATALOG, version)
    return {one.broker_uuid: one for one in unready}


def _runs(broker: BrokerRecord, before: BrokerRecord | None) -> bool:
    """Its process, if that can be seen from here; otherwise its beat has risen."""
    with suppress(KeyError, TypeError, ValueError):
        process = process_of_json(broker.description["process"])
        if is_visible(process):
            return is_running(process)
    return before is None or broker.beat > before.beat

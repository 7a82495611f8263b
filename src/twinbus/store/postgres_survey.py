"""A look at a PostgreSQL store without becoming its owner."""

from twinbus.broker.changes import StoredEntity
from twinbus.store.base import StoreUnreadable
from twinbus.store.postgres_connection import SQL
from twinbus.store.postgres_errors import reading
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_journal import UnwrittenRecords, fragment_record
from twinbus.store.postgres_schema import check_schema
from twinbus.store.postgres_session import connect
from twinbus.store.postgres_url import PostgresUrl
from twinbus.store.survey import Survey


async def survey_schema(url: PostgresUrl) -> Survey:
    """What is in it at one moment. Raises StoreError."""
    session = await connect(url, "twinbus recover")
    try:
        if not await check_schema(session, url, FORMAT):
            raise StoreUnreadable(
                f"There is no message store {url.location}, so there is nothing to "
                "recover from. Restore a backup of it, or name the right schema."
            )
        with reading(url.location):
            await session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            identity, blobs, table, entities = [
                await session.rows(SQL[name])
                for name in ("identity", "journal_records", "fragments", "entities")
            ]
    finally:
        await session.close()
    unwritten = UnwrittenRecords()
    unwritten.learn(blob for (blob,) in blobs)
    return Survey(
        store_uuid=identity[0][0],
        fragments=unwritten.over(map(fragment_record, table)),
        entities=[
            StoredEntity(generation=generation, definition=definition)
            for generation, definition in entities
        ],
    )

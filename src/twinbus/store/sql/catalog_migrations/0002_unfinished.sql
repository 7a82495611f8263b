-- Format 2 of the catalog: intents and tombstones. Code that does not know them would
-- drop every fragment that has no entity: hence the reader's version.

UPDATE meta SET format_version = 2, min_reader_version = 2;

-- Fragments that are to be dropped, and nothing else is: those of a creation that has
-- not ended ("intent"), those of an entity that was removed ("tombstone").
CREATE TABLE unfinished (
    generation BLOB NOT NULL,
    store_uuid BLOB NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    path TEXT NOT NULL,
    noted_at INTEGER NOT NULL,
    PRIMARY KEY (generation, store_uuid)
) WITHOUT ROWID;

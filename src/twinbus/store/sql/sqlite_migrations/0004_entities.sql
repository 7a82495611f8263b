-- Format 4: what the entities of the fragments are, so that they can be brought back
-- when the catalog is lost. Filled from the catalog at the next start. Code that does
-- not know the table would leave it behind the fragments: hence the reader's version.
-- From here on rows may have their delivery count as its complement, too (see
-- sqlite_store.sql).

UPDATE meta SET format_version = 4, min_reader_version = 4;

CREATE TABLE entity (
    generation BLOB PRIMARY KEY,
    -- A JSON object, see store/catalog.py.
    definition TEXT NOT NULL
);

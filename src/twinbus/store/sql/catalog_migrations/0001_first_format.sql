-- Format 1 of the catalog.

CREATE TABLE meta (
    format_version INTEGER NOT NULL,
    -- The oldest format whose code can read and write this file.
    min_reader_version INTEGER NOT NULL
);
INSERT INTO meta VALUES (1, 1);

CREATE TABLE entity (
    -- Lower case: what entities are compared by.
    namespace_key TEXT NOT NULL,
    path_key TEXT NOT NULL,
    namespace TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    generation BLOB NOT NULL,
    -- A JSON object.
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- A JSON array: store uuid of each fragment, in hexadecimal.
    placement TEXT NOT NULL,
    PRIMARY KEY (namespace_key, path_key)
) WITHOUT ROWID;

-- Brokers announce themselves here so that others find them (D4).
CREATE TABLE broker (
    broker_uuid BLOB PRIMARY KEY,
    address TEXT NOT NULL,
    -- Raised by every announcement: a row that stays the same is of a dead broker.
    beat INTEGER NOT NULL,
    -- A JSON object: protocol version, owned stores.
    description TEXT NOT NULL
) WITHOUT ROWID;

-- Format 1. A row id is fragment number << 48 | sequence number (broker/row_id.py),
-- so the primary key alone keeps a fragment's messages together and in order.

CREATE TABLE meta (
    format_version INTEGER NOT NULL,
    -- The oldest format whose code can read and write this file.
    min_reader_version INTEGER NOT NULL,
    store_uuid BLOB NOT NULL
);
INSERT INTO meta VALUES (1, 1, randomblob(16));

-- One row. Every transaction of an owner changes it: that is the fence (D4).
CREATE TABLE lease (
    epoch INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    -- Raised by what an owner writes besides commits.
    beat INTEGER NOT NULL,
    -- NULL when nobody owns the store.
    owner TEXT,
    pid INTEGER,
    process_start TEXT,
    host TEXT,
    -- Device and inode of the file that is owned: not those of its copies.
    file TEXT,
    taken_at INTEGER
);
INSERT INTO lease VALUES (0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE fragment (
    number INTEGER PRIMARY KEY,
    generation BLOB NOT NULL,
    fragment_index INTEGER NOT NULL,
    sub_queue INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL,
    last_enqueued_at INTEGER NOT NULL,
    active_count INTEGER NOT NULL,
    deferred_count INTEGER NOT NULL,
    scheduled_count INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL
);

-- Fragments that belong to nothing any more and still may have rows.
CREATE TABLE dropped_fragment (
    number INTEGER PRIMARY KEY
);

-- Active messages. `raw` comes last: SQLite reads a row from its beginning.
CREATE TABLE message (
    row_id INTEGER PRIMARY KEY,
    enqueued_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    -- expires_at / 60 s; NULL for what never expires.
    expiry_bucket INTEGER,
    delivery_count INTEGER NOT NULL,
    layout INTEGER NOT NULL,
    -- store/annex.py; NULL for most.
    annex BLOB,
    -- For bodies that the subscriptions of a topic share (D5).
    body_id INTEGER,
    raw BLOB NOT NULL
);

-- A bucket's messages are neighbours here, so that an insert with a time to live
-- touches one page and not a random one (D2).
CREATE INDEX message_expiry ON message (expiry_bucket)
    WHERE expiry_bucket IS NOT NULL;

CREATE TABLE deferred (
    row_id INTEGER PRIMARY KEY,
    enqueued_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    layout INTEGER NOT NULL,
    annex BLOB,
    body_id INTEGER,
    raw BLOB NOT NULL
);

CREATE TABLE scheduled (
    row_id INTEGER PRIMARY KEY,
    scheduled_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    layout INTEGER NOT NULL,
    annex BLOB,
    body_id INTEGER,
    raw BLOB NOT NULL
);
CREATE INDEX scheduled_time ON scheduled (scheduled_at);

-- What is on its way into another store (D12).
CREATE TABLE outbox (
    entry_id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    origin BLOB NOT NULL,
    raw BLOB NOT NULL
);

-- Disjoint, never adjacent: one row per gapless run (D12).
CREATE TABLE ledger_range (
    source TEXT NOT NULL,
    generation BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (source, generation, first)
) WITHOUT ROWID;

CREATE TABLE ledger_id (
    fragment_number INTEGER NOT NULL,
    unique_id BLOB NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (fragment_number, unique_id)
) WITHOUT ROWID;
CREATE INDEX ledger_id_seen ON ledger_id (seen_at);

-- One blob per commit (D11), see broker/operation_log.py.
CREATE TABLE operation_log (
    batch INTEGER PRIMARY KEY,
    operations BLOB NOT NULL
);

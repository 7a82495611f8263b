-- Format 1. A row id is fragment number << 48 | sequence number (broker/row_id.py). The
-- texts of clients are bytes, in UTF-8: a text of PostgreSQL cannot have a zero in it.

CREATE TABLE twinbus_meta (
    -- 'store'; the catalog has another kind.
    kind text NOT NULL,
    format_version bigint NOT NULL,
    -- The oldest format whose code can read and write this schema.
    min_reader_version bigint NOT NULL,
    store_uuid bytea NOT NULL,
    -- The table `fragment` is as it was after this commit.
    fragments_through bigint NOT NULL,
    -- Operations up to this commit are forgotten.
    trimmed_through bigint NOT NULL
);
INSERT INTO twinbus_meta VALUES (
    'store', 1, 1, decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 0, 0);

-- One row. Every commit locks it, and nothing but a change of the owner or of its
-- connection writes it: so it does not leave old versions behind.
CREATE TABLE lease (
    epoch bigint NOT NULL,
    -- Raised when the owner has lost its connection and made another.
    connection bigint NOT NULL,
    -- NULL when nobody owns the store.
    owner text,
    -- The application name of the owner's connections, and of no others.
    application text,
    granted_at timestamptz
);
INSERT INTO lease VALUES (0, 0, NULL, NULL, NULL);

-- One row, apart from the lease because commits must not read it.
CREATE TABLE renewal (
    beat bigint NOT NULL
);
INSERT INTO renewal VALUES (0);

-- A row for each commit. Like all tables that say `segments`, it is empty itself: rows
-- are in children of it.
CREATE TABLE journal (
    batch bigint PRIMARY KEY,
    -- Records of fragments, see postgres_journal.py; NULL if there are none.
    records bytea,
    -- broker/operation_log.py; NULL if there are none.
    operations bytea
);
COMMENT ON TABLE journal IS 'segments';

CREATE TABLE fragment (
    number bigint PRIMARY KEY,
    generation bytea NOT NULL,
    fragment_index bigint NOT NULL,
    sub_queue bigint NOT NULL,
    next_sequence bigint NOT NULL,
    last_enqueued_at bigint NOT NULL,
    active_count bigint NOT NULL,
    deferred_count bigint NOT NULL,
    scheduled_count bigint NOT NULL,
    size_bytes bigint NOT NULL
);

-- Fragments that belong to nothing any more and still may have rows.
CREATE TABLE dropped_fragment (
    number bigint PRIMARY KEY
);

-- What the entities of the fragments are, if the catalog is lost.
CREATE TABLE entity (
    generation bytea PRIMARY KEY,
    -- A JSON object, see store/catalog.py.
    definition text NOT NULL
);

-- Active messages.
CREATE TABLE message (
    row_id bigint PRIMARY KEY,
    enqueued_at bigint NOT NULL,
    ttl_ms bigint NOT NULL DEFAULT 0,
    -- See rows/expiry_bucket.py; NULL for what never expires.
    expiry_bucket bigint,
    delivery_count bigint NOT NULL DEFAULT 0,
    layout bigint NOT NULL,
    -- Of the message at its topic. Shared: its bytes are in shared_body.
    body_id bigint NOT NULL DEFAULT 0,
    is_shared bigint NOT NULL DEFAULT 0,
    session_id bytea,
    -- rows/annex.py; NULL for most.
    annex bytea,
    raw bytea NOT NULL
);
-- Not compressed: that would cost more than the disk.
ALTER TABLE message ALTER COLUMN raw SET STORAGE EXTERNAL;
CREATE INDEX message_expiry ON message (expiry_bucket, row_id)
    WHERE expiry_bucket IS NOT NULL;
CREATE INDEX message_session ON message ((row_id >> 48), session_id, row_id)
    WHERE session_id IS NOT NULL;
COMMENT ON TABLE message IS 'segments';

CREATE TABLE deferred (
    row_id bigint PRIMARY KEY,
    enqueued_at bigint NOT NULL,
    ttl_ms bigint NOT NULL,
    delivery_count bigint NOT NULL,
    layout bigint NOT NULL,
    body_id bigint NOT NULL,
    is_shared bigint NOT NULL,
    session_id bytea,
    annex bytea,
    raw bytea NOT NULL
);
ALTER TABLE deferred ALTER COLUMN raw SET STORAGE EXTERNAL;
CREATE INDEX deferred_session ON deferred ((row_id >> 48), session_id, row_id)
    WHERE session_id IS NOT NULL;

CREATE TABLE scheduled (
    row_id bigint PRIMARY KEY,
    scheduled_at bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    ttl_ms bigint NOT NULL,
    delivery_count bigint NOT NULL,
    layout bigint NOT NULL,
    body_id bigint NOT NULL,
    is_shared bigint NOT NULL,
    session_id bytea,
    annex bytea,
    raw bytea NOT NULL
);
ALTER TABLE scheduled ALTER COLUMN raw SET STORAGE EXTERNAL;
CREATE INDEX scheduled_time ON scheduled (scheduled_at, row_id);
CREATE INDEX scheduled_session ON scheduled ((row_id >> 48), session_id, row_id)
    WHERE session_id IS NOT NULL;

-- A body id is the row id that the message had at its topic.
CREATE TABLE shared_body (
    body_id bigint PRIMARY KEY,
    raw bytea NOT NULL
);
ALTER TABLE shared_body ALTER COLUMN raw SET STORAGE EXTERNAL;
COMMENT ON TABLE shared_body IS 'segments';

-- How many rows use a body. Apart from it, because counting must not write the bytes
-- again.
CREATE TABLE body_use (
    body_id bigint PRIMARY KEY,
    use_count bigint NOT NULL
);
COMMENT ON TABLE body_use IS 'segments';

CREATE TABLE session_state (
    fragment_number bigint NOT NULL,
    session_id bytea NOT NULL,
    updated_at bigint NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (fragment_number, session_id)
);

CREATE TABLE rule (
    -- Tells which of two rules of the same instant came first.
    rule_id bigint GENERATED ALWAYS AS IDENTITY,
    fragment_number bigint NOT NULL,
    name bytea NOT NULL,
    definition bytea NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (fragment_number, name)
);

-- At most one for a fragment, see broker/reader_lease.py. `expires_at` 0: over.
CREATE TABLE reader_lease (
    fragment_number bigint PRIMARY KEY,
    reader bytea NOT NULL,
    epoch bigint NOT NULL,
    duration_ms bigint NOT NULL,
    expires_at bigint NOT NULL,
    planned_from bigint NOT NULL,
    planned_through bigint NOT NULL
);

-- What is on its way into another store.
CREATE TABLE outbox (
    entry_id bigint PRIMARY KEY,
    target bytea NOT NULL,
    origin bytea NOT NULL,
    raw bytea NOT NULL
);

-- Disjoint, never adjacent: one row per gapless run.
CREATE TABLE ledger_range (
    source bytea NOT NULL,
    generation bytea NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (source, generation, first)
);

CREATE TABLE ledger_id (
    fragment_number bigint NOT NULL,
    unique_id bytea NOT NULL,
    forget_at bigint NOT NULL,
    PRIMARY KEY (fragment_number, unique_id)
);
CREATE INDEX ledger_id_forgotten ON ledger_id (forget_at);

-- Format 2: message sessions, bodies that subscriptions share, rules. What exists is
-- not copied: columns are added behind the bytes, where SQLite finds a NULL without
-- reading them. A message without a session has a NULL, and no entry in an index.

UPDATE meta SET format_version = 2, min_reader_version = 2;

ALTER TABLE message ADD COLUMN session_id TEXT;
-- 1: the bytes are those of `body_id` in shared_body, and `raw` is empty. Otherwise
-- `body_id` only says which number the message had at its topic.
ALTER TABLE message ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deferred ADD COLUMN session_id TEXT;
ALTER TABLE deferred ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scheduled ADD COLUMN session_id TEXT;
ALTER TABLE scheduled ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0;

-- By fragment and session; what is equal is in the order of row ids.
CREATE INDEX message_session ON message (row_id >> 48, session_id)
    WHERE session_id IS NOT NULL;
CREATE INDEX deferred_session ON deferred (row_id >> 48, session_id)
    WHERE session_id IS NOT NULL;
CREATE INDEX scheduled_session ON scheduled (row_id >> 48, session_id)
    WHERE session_id IS NOT NULL;

-- A body id is the row id that the message had at its topic.
CREATE TABLE shared_body (
    body_id INTEGER PRIMARY KEY,
    raw BLOB NOT NULL
);

-- How many rows use a body. Apart from it, because counting must not write the
-- bytes again.
CREATE TABLE body_use (
    body_id INTEGER PRIMARY KEY,
    use_count INTEGER NOT NULL
);

-- At most one row for a session: it is removed before it is put. The index has all
-- but the bytes, so that listing sessions does not read states.
CREATE TABLE session_state (
    fragment_number INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    state BLOB NOT NULL
);
CREATE INDEX session_state_session
    ON session_state (fragment_number, session_id, updated_at);

-- The row id tells which of two rules of the same instant came first.
CREATE TABLE rule (
    rule_id INTEGER PRIMARY KEY,
    fragment_number INTEGER NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (fragment_number, name)
);

-- Ids know themselves when they are to be forgotten. Until now they were kept for
-- seven days.
DROP INDEX ledger_id_seen;
ALTER TABLE ledger_id RENAME COLUMN seen_at TO forget_at;
UPDATE ledger_id SET forget_at = forget_at + 604800000;
CREATE INDEX ledger_id_forgotten ON ledger_id (forget_at);

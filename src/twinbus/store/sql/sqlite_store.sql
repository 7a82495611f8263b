-- Statements of `sqlite.py` and its neighbours. Messages are always selected with
-- the columns of `sqlite_rows.messages_of`, in its order; their bytes are those of
-- the row or, looked up for such rows alone, shared ones. State and scheduled time
-- follow where they may differ from those of an active message.

-- part: raw
CASE WHEN is_shared
    THEN (SELECT b.raw FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE raw END

-- part: delivery_count
-- Stored as its complement, -1 for 0: SQLite gives 0 and 1 no byte of their own, and
-- writes a row anew, body and all, when its length changes. Rows of before have it
-- as it is.
CASE WHEN delivery_count < 0 THEN ~delivery_count ELSE delivery_count END

-- part: message
row_id, {raw}, layout, enqueued_at, ttl_ms, {delivery_count}, annex, session_id,
    body_id, is_shared

-- name: identity
SELECT store_uuid, epoch, batch FROM meta, lease;

-- name: holder
SELECT owner, pid, process_start, host, file, epoch FROM lease;

-- name: take_lease
UPDATE lease SET epoch = epoch + 1,
    owner = ?, pid = ?, process_start = ?, host = ?, file = ?, taken_at = ?;

-- name: give_lease_back
UPDATE lease SET owner = NULL, pid = NULL, process_start = NULL, host = NULL,
    file = NULL, taken_at = NULL
WHERE epoch = ?;

-- name: fence_commit
UPDATE lease SET batch = :batch WHERE epoch = :epoch AND batch < :batch;

-- name: fence
-- The value must change: SQLite does not write a row that stays the same.
UPDATE lease SET beat = beat + 1 WHERE epoch = ?;

-- name: last_batch
SELECT batch FROM lease;

-- name: put_fragment
INSERT INTO fragment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET
    generation = excluded.generation,
    fragment_index = excluded.fragment_index,
    sub_queue = excluded.sub_queue,
    next_sequence = excluded.next_sequence,
    last_enqueued_at = excluded.last_enqueued_at,
    active_count = excluded.active_count,
    deferred_count = excluded.deferred_count,
    scheduled_count = excluded.scheduled_count,
    size_bytes = excluded.size_bytes;

-- name: fragments
SELECT number, generation, fragment_index, sub_queue, next_sequence,
    last_enqueued_at, active_count, deferred_count, scheduled_count, size_bytes
FROM fragment ORDER BY number;

-- name: delete_fragment
DELETE FROM fragment WHERE number = ?;

-- name: drop_fragment
INSERT OR IGNORE INTO dropped_fragment VALUES (?);

-- name: dropped_fragments
SELECT number FROM dropped_fragment ORDER BY number;

-- name: forget_dropped_fragment
DELETE FROM dropped_fragment WHERE number = ?;

-- name: put_entity
INSERT OR REPLACE INTO entity VALUES (?, ?);

-- name: delete_entity
DELETE FROM entity WHERE generation = ?;

-- name: entities
SELECT generation, definition FROM entity;

-- name: insert_plain
-- The most frequent row: no time to live, never delivered, no annex. Binding NULL
-- costs Python more than the rest of the row, so what is usual is a literal.
INSERT INTO message (row_id, enqueued_at, layout, raw,
    ttl_ms, expiry_bucket, delivery_count, annex)
VALUES (?, ?, ?, ?, 0, NULL, -1, NULL);

-- name: insert_expiring
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    delivery_count, annex)
VALUES (?, ?, ?, ?, ?, ?, -1, NULL);

-- name: insert_of_session
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    session_id, delivery_count, annex)
VALUES (?, ?, ?, ?, ?, ?, ?, -1, NULL);

-- name: insert_shared
INSERT INTO message (row_id, enqueued_at, layout, body_id, ttl_ms, expiry_bucket,
    raw, is_shared, delivery_count, annex)
VALUES (?, ?, ?, ?, ?, ?, X'', 1, -1, NULL);

-- name: insert_any
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    delivery_count, annex, session_id, body_id, is_shared)
VALUES (?, ?, ?, ?, ?, ?, ~?, ?, ?, ?, ?);

-- name: move_to_active
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    delivery_count, annex, session_id, body_id, is_shared)
SELECT ?, ?, ?, source.raw, ?, ?, ~?, ?, ?, ?, 0
FROM (SELECT raw FROM message WHERE row_id = ?
    UNION ALL SELECT raw FROM deferred WHERE row_id = ?) AS source;

-- name: move_to_deferred
INSERT INTO deferred (row_id, enqueued_at, ttl_ms, delivery_count, layout, annex,
    raw, session_id, body_id, is_shared)
SELECT ?, ?, ?, ~?, ?, ?, source.raw, ?, ?, 0
FROM message AS source WHERE source.row_id = ?;

-- name: delete_active
DELETE FROM message WHERE row_id BETWEEN ? AND ?;

-- name: change_active
UPDATE message SET delivery_count = ~?, annex = ? WHERE row_id = ?;

-- name: insert_deferred
INSERT INTO deferred (row_id, enqueued_at, ttl_ms, delivery_count, layout, annex,
    raw, session_id, body_id, is_shared) VALUES (?, ?, ?, ~?, ?, ?, ?, ?, ?, ?);

-- name: delete_deferred
DELETE FROM deferred WHERE row_id BETWEEN ? AND ?;

-- name: change_deferred
UPDATE deferred SET delivery_count = ~?, annex = ? WHERE row_id = ?;

-- name: insert_scheduled
INSERT INTO scheduled (row_id, scheduled_at, enqueued_at, ttl_ms, delivery_count,
    layout, annex, raw, session_id, body_id, is_shared)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_scheduled
DELETE FROM scheduled WHERE row_id BETWEEN ? AND ?;

-- name: read_active
SELECT {message} FROM message AS m
WHERE row_id > ? AND row_id <= ? ORDER BY row_id LIMIT ?;

-- name: count_active
SELECT count(*) FROM message WHERE row_id BETWEEN ? AND ?;

-- name: outlines
SELECT row_id, enqueued_at, length({raw}),
    CASE WHEN is_shared THEN body_id ELSE 0 END, annex, body_id
FROM message AS m WHERE row_id BETWEEN ? AND ? ORDER BY row_id LIMIT ?;

-- name: put_reader_lease
INSERT OR REPLACE INTO reader_lease VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: delete_reader_lease
DELETE FROM reader_lease WHERE fragment_number = ?;

-- name: reader_leases
SELECT fragment_number, reader, epoch, duration_ms, expires_at, planned_from,
    planned_through
FROM reader_lease ORDER BY fragment_number;

-- name: read_numbered
SELECT {message} FROM message AS m
WHERE row_id IN (SELECT value FROM json_each(?));

-- name: browse_deferred
SELECT {message}, 1, 0 FROM deferred AS m
WHERE row_id BETWEEN ? AND ? ORDER BY row_id LIMIT ?;

-- name: read_deferred
SELECT {message}, 1, 0 FROM deferred AS m
WHERE row_id IN (SELECT value FROM json_each(?));

-- name: deferred_bytes
-- SQLite knows the length of a value without reading it, but not that of CASE.
SELECT coalesce(sum(CASE WHEN is_shared
    THEN (SELECT length(b.raw) FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE length(raw) END), 0) FROM deferred AS m
WHERE row_id IN (SELECT value FROM json_each(?));

-- name: read_scheduled
SELECT {message}, 2, scheduled_at FROM scheduled AS m
WHERE row_id IN (SELECT value FROM json_each(?));

-- name: browse
SELECT {message}, 0, 0 FROM message AS m WHERE row_id BETWEEN :first AND :last
UNION ALL
SELECT {message}, 1, 0 FROM deferred AS m WHERE row_id BETWEEN :first AND :last
UNION ALL
SELECT {message}, 2, scheduled_at FROM scheduled AS m
WHERE row_id BETWEEN :first AND :last
ORDER BY row_id LIMIT :limit;

-- name: read_session
SELECT {message} FROM message AS m
WHERE row_id >> 48 = :row_prefix AND session_id = :session_id AND row_id > :after
ORDER BY row_id LIMIT :limit;

-- name: browse_session
SELECT {message}, 0, 0 FROM message AS m
WHERE row_id >> 48 = :row_prefix AND session_id = :session_id AND row_id >= :first
UNION ALL
SELECT {message}, 1, 0 FROM deferred AS m
WHERE row_id >> 48 = :row_prefix AND session_id = :session_id AND row_id >= :first
UNION ALL
SELECT {message}, 2, scheduled_at FROM scheduled AS m
WHERE row_id >> 48 = :row_prefix AND session_id = :session_id AND row_id >= :first
ORDER BY row_id LIMIT :limit;

-- name: active_sessions
-- Each step looks up the next session: the messages between are never walked over.
WITH RECURSIVE found (session_id) AS (
    SELECT min(m.session_id) FROM message AS m
    WHERE m.row_id >> 48 = :row_prefix AND m.session_id >= :from
    UNION ALL
    SELECT (
        SELECT min(m.session_id) FROM message AS m
        WHERE m.row_id >> 48 = :row_prefix AND m.session_id > found.session_id
    ) FROM found WHERE found.session_id IS NOT NULL
    LIMIT :limit
)
SELECT session_id FROM found WHERE session_id IS NOT NULL;

-- name: sessions_updated
SELECT session_id FROM session_state
WHERE fragment_number = ? AND session_id >= ? AND updated_at > ?
ORDER BY session_id LIMIT ?;

-- name: session_state
SELECT state FROM session_state WHERE fragment_number = ? AND session_id = ?;

-- name: delete_session_state
DELETE FROM session_state WHERE fragment_number = ? AND session_id = ?;

-- name: insert_session_state
INSERT INTO session_state VALUES (?, ?, ?, ?);

-- name: delete_rule
DELETE FROM rule WHERE fragment_number = ? AND name = ?;

-- name: put_rule
-- A rule that replaces another gets a new id: it is the last to have come.
INSERT OR REPLACE INTO rule (fragment_number, name, definition, created_at)
VALUES (?, ?, ?, ?);

-- name: rules
SELECT fragment_number, name, definition, created_at FROM rule
ORDER BY fragment_number, created_at, rule_id;

-- name: insert_body
INSERT INTO shared_body VALUES (?, ?);

-- name: insert_body_use
INSERT INTO body_use VALUES (?, ?);

-- name: count_body_use
UPDATE body_use SET use_count = use_count + ? WHERE body_id BETWEEN ? AND ?;

-- name: delete_body_use
DELETE FROM body_use WHERE body_id BETWEEN ? AND ? AND use_count <= 0;

-- name: delete_body
DELETE FROM shared_body WHERE body_id BETWEEN ? AND ?
    AND NOT EXISTS (SELECT 1 FROM body_use AS u WHERE u.body_id = shared_body.body_id);

-- name: has_bodies
SELECT EXISTS (SELECT 1 FROM shared_body WHERE body_id BETWEEN ? AND ?);

-- name: due
SELECT {message}, 2, scheduled_at FROM scheduled AS m
WHERE scheduled_at <= ? ORDER BY scheduled_at, row_id LIMIT ?;

-- name: due_without
SELECT {message}, 2, scheduled_at FROM scheduled AS m
WHERE scheduled_at <= ? AND row_id >> 48 NOT IN (SELECT value FROM json_each(?))
ORDER BY scheduled_at, row_id LIMIT ?;

-- name: next_scheduled_at
SELECT coalesce(min(scheduled_at), 0) FROM scheduled;

-- name: next_scheduled_at_without
SELECT coalesce((
    SELECT scheduled_at FROM scheduled
    WHERE row_id >> 48 NOT IN (SELECT value FROM json_each(?))
    ORDER BY scheduled_at LIMIT 1), 0);

-- name: expired
-- In two parts, because a comparison of (expiry_bucket, row_id) as a pair would read
-- the bucket of the cursor from its beginning every time.
SELECT {message}, 0, 0, expiry_bucket FROM message AS m
WHERE expiry_bucket = :bucket AND row_id > :row_id AND :bucket < :current_bucket
UNION ALL
SELECT {message}, 0, 0, expiry_bucket FROM message AS m
WHERE expiry_bucket > :bucket AND expiry_bucket < :current_bucket
ORDER BY expiry_bucket, row_id LIMIT :limit;

-- name: expiry_bucket
SELECT expiry_bucket FROM message WHERE row_id = ?;

-- name: portion_of_active
-- How many rows, and the last of them.
SELECT count(*), max(row_id) FROM (
    SELECT row_id FROM message WHERE row_id BETWEEN ? AND ? ORDER BY row_id LIMIT ?);

-- name: shared_by_active
SELECT body_id FROM message WHERE row_id BETWEEN ? AND ? AND is_shared;

-- name: portion_of_deferred
-- How many rows, and the last of them.
SELECT count(*), max(row_id) FROM (
    SELECT row_id FROM deferred WHERE row_id BETWEEN ? AND ? ORDER BY row_id LIMIT ?);

-- name: shared_by_deferred
SELECT body_id FROM deferred WHERE row_id BETWEEN ? AND ? AND is_shared;

-- name: portion_of_scheduled
-- How many rows, and the last of them.
SELECT count(*), max(row_id) FROM (
    SELECT row_id FROM scheduled WHERE row_id BETWEEN ? AND ? ORDER BY row_id LIMIT ?);

-- name: shared_by_scheduled
SELECT body_id FROM scheduled WHERE row_id BETWEEN ? AND ? AND is_shared;

-- name: purge_ledger_ids
DELETE FROM ledger_id WHERE fragment_number = ?1 AND unique_id IN (
    SELECT unique_id FROM ledger_id WHERE fragment_number = ?1 LIMIT ?2);

-- name: purge_session_states
DELETE FROM session_state WHERE rowid IN (
    SELECT rowid FROM session_state WHERE fragment_number = ? LIMIT ?);

-- name: purge_rules
DELETE FROM rule WHERE rule_id IN (
    SELECT rule_id FROM rule WHERE fragment_number = ? LIMIT ?);

-- name: insert_outbox
INSERT INTO outbox (entry_id, target, raw, origin) VALUES (?, ?, ?, ?);

-- name: delete_outbox
DELETE FROM outbox WHERE entry_id = ?;

-- name: outbox
SELECT entry_id, target, raw, origin FROM outbox
WHERE entry_id > :after AND substr(target, 1, length(:lane)) = :lane
ORDER BY entry_id LIMIT :limit;

-- name: outbox_totals
SELECT target, origin, count(*), sum(length(raw)) FROM outbox
GROUP BY target, origin;

-- name: touching_ranges
-- The ranges that overlap or adjoin first..last, as one. Ranges are disjoint, so
-- the lowest of them is the last one that begins at or before `first`.
SELECT min(first), max(last) FROM ledger_range
WHERE source = :source AND generation = :generation
    AND first >= coalesce((
        SELECT max(first) FROM ledger_range
        WHERE source = :source AND generation = :generation AND first <= :first
    ), :first)
    AND first <= :last + 1
    AND last >= :first - 1;

-- name: delete_ranges
DELETE FROM ledger_range
WHERE source = ? AND generation = ? AND first BETWEEN ? AND ?;

-- name: insert_range
INSERT INTO ledger_range VALUES (?, ?, ?, ?);

-- name: range_before
SELECT last FROM ledger_range
WHERE source = ? AND generation = ? AND first <= ? ORDER BY first DESC LIMIT 1;

-- name: put_ledger_id
INSERT INTO ledger_id VALUES (?, ?, ?)
ON CONFLICT (fragment_number, unique_id)
DO UPDATE SET forget_at = max(forget_at, excluded.forget_at);

-- name: has_ledger_id
SELECT 1 FROM ledger_id
WHERE fragment_number = ? AND unique_id = ? AND forget_at > ?;

-- name: trim_ledger_ids
DELETE FROM ledger_id WHERE (fragment_number, unique_id) IN (
    SELECT fragment_number, unique_id FROM ledger_id WHERE forget_at <= ? LIMIT ?);

-- name: insert_operations
INSERT INTO operation_log VALUES (?, ?);

-- name: operations
SELECT batch, operations FROM operation_log WHERE batch > ? ORDER BY batch LIMIT ?;

-- name: trim_operations
DELETE FROM operation_log WHERE batch <= ?;

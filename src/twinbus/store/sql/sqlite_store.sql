-- Statements of `sqlite.py` and `sqlite_lease.py`. Messages are always selected
-- with the columns of `sqlite_rows.messages_of`, in its order.

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

-- name: insert_plain
-- The most frequent row: no time to live, never delivered, no annex. Binding NULL
-- costs Python more than the rest of the row, so what is usual is a literal.
INSERT INTO message (row_id, enqueued_at, layout, raw,
    ttl_ms, expiry_bucket, delivery_count, annex)
VALUES (?, ?, ?, ?, 0, NULL, 0, NULL);

-- name: insert_expiring
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    delivery_count, annex)
VALUES (?, ?, ?, ?, ?, ?, 0, NULL);

-- name: insert_any
INSERT INTO message (row_id, enqueued_at, layout, raw, ttl_ms, expiry_bucket,
    delivery_count, annex)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_active
DELETE FROM message WHERE row_id BETWEEN ? AND ?;

-- name: change_active
UPDATE message SET delivery_count = ?, annex = ? WHERE row_id = ?;

-- name: insert_deferred
INSERT INTO deferred (row_id, enqueued_at, ttl_ms, delivery_count, layout, annex,
    raw) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: delete_deferred
DELETE FROM deferred WHERE row_id BETWEEN ? AND ?;

-- name: change_deferred
UPDATE deferred SET delivery_count = ?, annex = ? WHERE row_id = ?;

-- name: insert_scheduled
INSERT INTO scheduled (row_id, scheduled_at, enqueued_at, ttl_ms, delivery_count,
    layout, annex, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_scheduled
DELETE FROM scheduled WHERE row_id BETWEEN ? AND ?;

-- name: read_active
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 0, 0, annex
FROM message WHERE row_id > ? AND row_id <= ? ORDER BY row_id LIMIT ?;

-- name: read_deferred
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 1, 0, annex
FROM deferred WHERE row_id IN (SELECT value FROM json_each(?));

-- name: read_scheduled
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 2, scheduled_at,
    annex
FROM scheduled WHERE row_id IN (SELECT value FROM json_each(?));

-- name: browse
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 0, 0, annex
FROM message WHERE row_id BETWEEN :first AND :last
UNION ALL
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 1, 0, annex
FROM deferred WHERE row_id BETWEEN :first AND :last
UNION ALL
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 2, scheduled_at,
    annex
FROM scheduled WHERE row_id BETWEEN :first AND :last
ORDER BY row_id LIMIT :limit;

-- name: due
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 2, scheduled_at,
    annex
FROM scheduled WHERE scheduled_at <= ? ORDER BY scheduled_at, row_id LIMIT ?;

-- name: next_scheduled_at
SELECT coalesce(min(scheduled_at), 0) FROM scheduled;

-- name: expired
-- In two parts, because a comparison of (expiry_bucket, row_id) as a pair would read
-- the bucket of the cursor from its beginning every time.
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 0, 0, annex,
    expiry_bucket
FROM message
WHERE expiry_bucket = :bucket AND row_id > :row_id AND :bucket < :current_bucket
UNION ALL
SELECT row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, 0, 0, annex,
    expiry_bucket
FROM message
WHERE expiry_bucket > :bucket AND expiry_bucket < :current_bucket
ORDER BY expiry_bucket, row_id LIMIT :limit;

-- name: expiry_bucket
SELECT expiry_bucket FROM message WHERE row_id = ?;

-- name: purge_active
DELETE FROM message WHERE row_id IN (
    SELECT row_id FROM message WHERE row_id BETWEEN ? AND ? LIMIT ?);

-- name: purge_deferred
DELETE FROM deferred WHERE row_id IN (
    SELECT row_id FROM deferred WHERE row_id BETWEEN ? AND ? LIMIT ?);

-- name: purge_scheduled
DELETE FROM scheduled WHERE row_id IN (
    SELECT row_id FROM scheduled WHERE row_id BETWEEN ? AND ? LIMIT ?);

-- name: purge_ledger_ids
DELETE FROM ledger_id WHERE fragment_number = ?1 AND unique_id IN (
    SELECT unique_id FROM ledger_id WHERE fragment_number = ?1 LIMIT ?2);

-- name: insert_outbox
INSERT INTO outbox (entry_id, target, raw, origin) VALUES (?, ?, ?, ?);

-- name: delete_outbox
DELETE FROM outbox WHERE entry_id = ?;

-- name: outbox
SELECT entry_id, target, raw, origin FROM outbox ORDER BY entry_id LIMIT ?;

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
DO UPDATE SET seen_at = max(seen_at, excluded.seen_at);

-- name: has_ledger_id
SELECT 1 FROM ledger_id WHERE fragment_number = ? AND unique_id = ?;

-- name: trim_ledger_ids
DELETE FROM ledger_id WHERE seen_at < ?;

-- name: insert_operations
INSERT INTO operation_log VALUES (?, ?);

-- name: operations
SELECT batch, operations FROM operation_log WHERE batch > ? ORDER BY batch LIMIT ?;

-- name: trim_operations
DELETE FROM operation_log WHERE batch <= ?;

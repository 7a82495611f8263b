-- Statements of `sqlite_audit.py`. They read every row, so they are for stores that
-- nobody serves.

-- name: counters
SELECT number, active_count, deferred_count, scheduled_count, size_bytes,
    next_sequence
FROM fragment;

-- name: dropped
SELECT number FROM dropped_fragment;

-- name: generations
SELECT DISTINCT generation FROM fragment;

-- name: held_active
SELECT row_id >> 48, count(*), total(CASE WHEN is_shared
    THEN (SELECT length(b.raw) FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE length(raw) END), max(row_id)
FROM message AS m NOT INDEXED GROUP BY row_id >> 48;

-- name: held_deferred
SELECT row_id >> 48, count(*), total(CASE WHEN is_shared
    THEN (SELECT length(b.raw) FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE length(raw) END), max(row_id)
FROM deferred AS m NOT INDEXED GROUP BY row_id >> 48;

-- name: held_scheduled
SELECT row_id >> 48, count(*), total(CASE WHEN is_shared
    THEN (SELECT length(b.raw) FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE length(raw) END), max(row_id)
FROM scheduled AS m NOT INDEXED GROUP BY row_id >> 48;

-- name: held_states
SELECT fragment_number, total(length(state)) FROM session_state
GROUP BY fragment_number;

-- name: of_fragments
SELECT fragment_number FROM rule UNION SELECT fragment_number FROM ledger_id
UNION SELECT fragment_number FROM reader_lease
UNION SELECT fragment_number FROM session_state
UNION SELECT (body_id >> 48) + 32768 FROM shared_body;

-- name: bodies_missing
SELECT count(*) FROM (
    SELECT body_id FROM message WHERE is_shared
    UNION ALL SELECT body_id FROM deferred WHERE is_shared
    UNION ALL SELECT body_id FROM scheduled WHERE is_shared) AS used
WHERE NOT EXISTS (SELECT 1 FROM shared_body AS b WHERE b.body_id = used.body_id);

-- name: bodies_miscounted
SELECT count(*) FROM body_use AS counted LEFT JOIN (
    SELECT body_id, count(*) AS use_count FROM (
        SELECT body_id FROM message WHERE is_shared
        UNION ALL SELECT body_id FROM deferred WHERE is_shared
        UNION ALL SELECT body_id FROM scheduled WHERE is_shared)
    GROUP BY body_id) AS used ON used.body_id = counted.body_id
WHERE counted.use_count <> coalesce(used.use_count, 0);

-- name: recount
UPDATE fragment SET active_count = ?, deferred_count = ?, scheduled_count = ?,
    size_bytes = ?
WHERE number = ?;

-- name: entities
-- The namespace itself has a row, and no fragment.
SELECT path, generation, placement FROM entity WHERE path <> '';

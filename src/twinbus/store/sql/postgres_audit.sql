-- Statements of `postgres_audit.py`. They read every row, in one snapshot.

-- name: begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: keep_segments
-- Before the snapshot is taken: a segment that is truncated later would look empty.
LOCK TABLE message, journal, shared_body, body_use IN ACCESS SHARE MODE;

-- name: read_all
-- Sessions of a store switch this off.
SET LOCAL enable_seqscan = on;

-- name: no_timeout
SET LOCAL statement_timeout = 0;

-- name: identity
SELECT store_uuid, owner,
    coalesce((SELECT batch FROM journal ORDER BY batch DESC LIMIT 1), 0)
FROM twinbus_meta, lease;

-- name: dropped
SELECT number FROM dropped_fragment;

-- part: size
sum(CASE WHEN m.is_shared <> 0
    THEN (SELECT octet_length(b.raw) FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE octet_length(m.raw) END)::bigint

-- name: held_active
SELECT count(*), {size}, max(m.row_id) FROM message AS m GROUP BY m.row_id >> 48;

-- name: held_deferred
SELECT count(*), {size}, max(m.row_id) FROM deferred AS m GROUP BY m.row_id >> 48;

-- name: held_scheduled
SELECT count(*), {size}, max(m.row_id) FROM scheduled AS m GROUP BY m.row_id >> 48;

-- name: held_states
SELECT fragment_number, sum(octet_length(state))::bigint FROM session_state
GROUP BY fragment_number;

-- name: of_fragments
SELECT fragment_number FROM rule UNION SELECT fragment_number FROM ledger_id
UNION SELECT fragment_number FROM reader_lease
UNION SELECT fragment_number FROM session_state
UNION SELECT (body_id >> 48) + 32768 FROM shared_body;

-- part: used
(SELECT body_id FROM message WHERE is_shared <> 0
    UNION ALL SELECT body_id FROM deferred WHERE is_shared <> 0
    UNION ALL SELECT body_id FROM scheduled WHERE is_shared <> 0)

-- name: bodies_missing
SELECT count(*) FROM {used} AS used
WHERE NOT EXISTS (SELECT 1 FROM shared_body AS b WHERE b.body_id = used.body_id);

-- name: bodies_miscounted
SELECT count(*) FROM body_use AS counted LEFT JOIN
    (SELECT body_id, count(*) AS use_count FROM {used} AS used GROUP BY body_id) AS used
    ON used.body_id = counted.body_id
WHERE counted.use_count <> coalesce(used.use_count, 0);

-- name: doubled
-- Row ids are unique within a segment only.
SELECT count(*) FROM (SELECT row_id FROM message GROUP BY row_id HAVING count(*) > 1)
    AS doubled;

-- Statements of `postgres.py` and its neighbours. Messages are always selected with the
-- columns of `postgres_rows.messages_of`, in its order. {segment} is replaced by the name
-- of a child table when a statement is used; all others name parents.

-- part: raw
CASE WHEN m.is_shared <> 0
    THEN (SELECT b.raw FROM shared_body AS b WHERE b.body_id = m.body_id)
    ELSE m.raw END AS raw

-- part: columns
row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, annex, session_id, body_id,
    is_shared, state, scheduled_at

-- part: message
m.row_id, {raw}, m.layout, m.enqueued_at, m.ttl_ms, m.delivery_count, m.annex,
    m.session_id, m.body_id, m.is_shared

-- part: counted
-- Rows that came before, in bytes: PostgreSQL knows the length of a value that is kept
-- apart from its row without reading it.
sum(octet_length(raw)) OVER (ORDER BY row_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before

-- part: held
SELECT true FROM lease WHERE epoch = %(epoch)s AND connection = %(connection)s FOR UPDATE

-- name: identity
SELECT store_uuid, epoch, connection,
    coalesce((SELECT batch FROM journal ORDER BY batch DESC LIMIT 1), 0),
    fragments_through, trimmed_through
FROM twinbus_meta, lease;

-- name: holder
SELECT epoch, connection, owner, application, beat,
    coalesce((SELECT batch FROM journal ORDER BY batch DESC LIMIT 1), 0), store_uuid
FROM lease, renewal, twinbus_meta;

-- name: end_backends
-- Waits for their end. Nobody else has this application name.
SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity
WHERE application_name = %s AND datname = current_database()
    AND pid <> pg_backend_pid();

-- name: lock_lease
SELECT epoch, connection FROM lease FOR UPDATE;

-- name: take_lease
UPDATE lease SET epoch = epoch + 1, connection = 1, owner = %s, application = %s,
    granted_at = clock_timestamp()
RETURNING epoch;

-- name: reconnect
UPDATE lease SET connection = connection + 1
WHERE epoch = %s AND application = %s RETURNING connection;

-- name: give_lease_back
UPDATE lease SET owner = NULL, application = NULL, granted_at = NULL
WHERE epoch = %s AND application = %s;

-- name: renew
UPDATE renewal SET beat = beat + 1 WHERE ({held}) RETURNING beat;

-- name: fence
{held};

-- name: fence_commit
-- Without the row of the lease the number is NULL, which is refused.
INSERT INTO {segment} (batch, records, operations) VALUES (
    (SELECT %(batch)s::bigint FROM lease
        WHERE epoch = %(epoch)s AND connection = %(connection)s FOR UPDATE),
    %(records)s, %(operations)s);

-- name: last_batch
SELECT coalesce((SELECT batch FROM journal ORDER BY batch DESC LIMIT 1), 0);

-- name: put_fragments
INSERT INTO fragment
SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
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

-- name: fragments_through
UPDATE twinbus_meta SET fragments_through = %s;

-- name: fragments
SELECT number, generation, fragment_index, sub_queue, next_sequence,
    last_enqueued_at, active_count, deferred_count, scheduled_count, size_bytes
FROM fragment ORDER BY number;

-- name: journal_records
SELECT records FROM journal
WHERE batch > (SELECT fragments_through FROM twinbus_meta) AND records IS NOT NULL
ORDER BY batch;

-- name: delete_fragments
DELETE FROM fragment WHERE number = ANY (%s);

-- name: drop_fragments
INSERT INTO dropped_fragment SELECT * FROM unnest(%s) ON CONFLICT DO NOTHING;

-- name: dropped_fragments
SELECT number FROM dropped_fragment ORDER BY number;

-- name: forget_dropped_fragment
DELETE FROM dropped_fragment WHERE number = %s;

-- name: put_entity
INSERT INTO entity VALUES (%s, %s)
ON CONFLICT (generation) DO UPDATE SET definition = excluded.definition;

-- name: delete_entities
DELETE FROM entity WHERE generation = ANY (%s);

-- name: entities
SELECT generation, definition FROM entity;

-- name: insert_plain
-- The most frequent row: what is not named has its default.
INSERT INTO {segment} (row_id, enqueued_at, layout, raw)
SELECT * FROM unnest(%s, %s, %s, %s);

-- name: insert_any
INSERT INTO {segment} (row_id, enqueued_at, layout, ttl_ms, expiry_bucket,
    delivery_count, body_id, is_shared, session_id, annex, raw)
SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: move_to_active
-- Bytes that are nowhere are NULL, which is refused.
INSERT INTO {segment} (row_id, enqueued_at, layout, ttl_ms, expiry_bucket,
    delivery_count, body_id, is_shared, session_id, annex, raw)
SELECT n.row_id, n.enqueued_at, n.layout, n.ttl_ms, n.expiry_bucket, n.delivery_count,
    n.body_id, 0, n.session_id, n.annex,
    coalesce((SELECT m.raw FROM message AS m WHERE m.row_id = n.copied_from),
        (SELECT d.raw FROM deferred AS d WHERE d.row_id = n.copied_from))
FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) AS n (row_id, enqueued_at, layout,
    ttl_ms, expiry_bucket, delivery_count, body_id, session_id, annex, copied_from);

-- name: move_to_deferred
INSERT INTO deferred (row_id, enqueued_at, layout, ttl_ms, delivery_count, body_id,
    is_shared, session_id, annex, raw)
SELECT n.row_id, n.enqueued_at, n.layout, n.ttl_ms, n.delivery_count, n.body_id, 0,
    n.session_id, n.annex,
    (SELECT m.raw FROM message AS m WHERE m.row_id = n.copied_from)
FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s) AS n (row_id, enqueued_at, layout,
    ttl_ms, delivery_count, body_id, session_id, annex, copied_from);

-- name: delete_active
-- How many of which segment.
WITH gone AS (
    DELETE FROM message AS m USING unnest(%s, %s) AS r (first, last)
    WHERE m.row_id BETWEEN r.first AND r.last RETURNING m.tableoid AS segment)
SELECT segment::bigint, count(*) FROM gone GROUP BY segment;

-- name: change_active
UPDATE message AS m SET delivery_count = n.delivery_count, annex = n.annex
FROM unnest(%s, %s, %s) AS n (row_id, delivery_count, annex)
WHERE m.row_id = n.row_id;

-- name: insert_deferred
INSERT INTO deferred (row_id, enqueued_at, layout, ttl_ms, delivery_count, body_id,
    is_shared, session_id, annex, raw)
SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: delete_deferred
DELETE FROM deferred AS m USING unnest(%s, %s) AS r (first, last)
WHERE m.row_id BETWEEN r.first AND r.last;

-- name: change_deferred
UPDATE deferred AS m SET delivery_count = n.delivery_count, annex = n.annex
FROM unnest(%s, %s, %s) AS n (row_id, delivery_count, annex)
WHERE m.row_id = n.row_id;

-- name: insert_scheduled
INSERT INTO scheduled (row_id, enqueued_at, layout, ttl_ms, delivery_count, body_id,
    is_shared, session_id, annex, raw, scheduled_at)
SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: delete_scheduled
DELETE FROM scheduled AS m USING unnest(%s, %s) AS r (first, last)
WHERE m.row_id BETWEEN r.first AND r.last;

-- name: read_active
SELECT {columns} FROM (SELECT *, {counted} FROM (
    SELECT {message}, 0 AS state, 0 AS scheduled_at FROM message AS m
    WHERE m.row_id > %(after)s AND m.row_id <= %(last)s
    ORDER BY m.row_id LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s ORDER BY row_id;

-- name: read_session
SELECT {columns} FROM (SELECT *, {counted} FROM (
    SELECT {message}, 0 AS state, 0 AS scheduled_at FROM message AS m
    WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id = %(session_id)s
        AND m.row_id > %(after)s
    ORDER BY m.row_id LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s ORDER BY row_id;

-- name: count_active
SELECT count(*) FROM message WHERE row_id BETWEEN %s AND %s;

-- name: outlines
SELECT m.row_id, m.enqueued_at, octet_length(m.raw), m.shared_id, m.annex, m.body_id
FROM (
    SELECT m.row_id, m.enqueued_at, m.annex, m.body_id, {raw},
        CASE WHEN m.is_shared <> 0 THEN m.body_id ELSE 0 END AS shared_id
    FROM message AS m
    WHERE m.row_id BETWEEN %s AND %s ORDER BY m.row_id LIMIT %s) AS m
ORDER BY m.row_id;

-- name: read_numbered
SELECT {message}, 0 AS state, 0 AS scheduled_at FROM message AS m
WHERE m.row_id = ANY (%s);

-- name: browse_deferred
SELECT {columns} FROM (SELECT *, {counted} FROM (
    SELECT {message}, 1 AS state, 0 AS scheduled_at FROM deferred AS m
    WHERE m.row_id BETWEEN %(first)s AND %(last)s
    ORDER BY m.row_id LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s ORDER BY row_id;

-- name: read_deferred
SELECT {message}, 1 AS state, 0 AS scheduled_at FROM deferred AS m
WHERE m.row_id = ANY (%s);

-- name: deferred_bytes
SELECT coalesce(sum(octet_length(found.raw)), 0)::bigint FROM (
    SELECT {raw} FROM deferred AS m WHERE m.row_id = ANY (%s)) AS found;

-- name: read_scheduled
SELECT {message}, 2 AS state, m.scheduled_at FROM scheduled AS m
WHERE m.row_id = ANY (%s);

-- name: browse
SELECT {columns} FROM (SELECT *, {counted} FROM (
    SELECT * FROM (
        (SELECT {message}, 0 AS state, 0 AS scheduled_at FROM message AS m
        WHERE m.row_id BETWEEN %(first)s AND %(last)s
        ORDER BY m.row_id LIMIT %(limit)s)
        UNION ALL
        (SELECT {message}, 1, 0 FROM deferred AS m
        WHERE m.row_id BETWEEN %(first)s AND %(last)s
        ORDER BY m.row_id LIMIT %(limit)s)
        UNION ALL
        (SELECT {message}, 2, m.scheduled_at FROM scheduled AS m
        WHERE m.row_id BETWEEN %(first)s AND %(last)s
        ORDER BY m.row_id LIMIT %(limit)s)
    ) AS every_state ORDER BY row_id, state LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s ORDER BY row_id, state;

-- name: browse_session
SELECT {columns} FROM (SELECT *, {counted} FROM (
    SELECT * FROM (
        (SELECT {message}, 0 AS state, 0 AS scheduled_at FROM message AS m
        WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id = %(session_id)s
            AND m.row_id >= %(first)s
        ORDER BY m.row_id LIMIT %(limit)s)
        UNION ALL
        (SELECT {message}, 1, 0 FROM deferred AS m
        WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id = %(session_id)s
            AND m.row_id >= %(first)s
        ORDER BY m.row_id LIMIT %(limit)s)
        UNION ALL
        (SELECT {message}, 2, m.scheduled_at FROM scheduled AS m
        WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id = %(session_id)s
            AND m.row_id >= %(first)s
        ORDER BY m.row_id LIMIT %(limit)s)
    ) AS every_state ORDER BY row_id, state LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s ORDER BY row_id, state;

-- name: active_sessions
-- Each step looks up the next session: the messages between are never walked over.
WITH RECURSIVE found (session_id) AS (
    (SELECT m.session_id FROM message AS m
    WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id >= %(from)s
    ORDER BY m.session_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT m.session_id FROM message AS m
        WHERE m.row_id >> 48 = %(row_prefix)s AND m.session_id > found.session_id
        ORDER BY m.session_id LIMIT 1
    ) FROM found WHERE found.session_id IS NOT NULL
)
SELECT session_id FROM found WHERE session_id IS NOT NULL LIMIT %(limit)s;

-- name: sessions_updated
SELECT session_id FROM session_state
WHERE fragment_number = %(number)s AND updated_at > %(since)s
    AND session_id >= %(from)s
ORDER BY session_id LIMIT %(limit)s;

-- name: session_state
SELECT state FROM session_state WHERE fragment_number = %s AND session_id = %s;

-- name: delete_session_state
DELETE FROM session_state WHERE fragment_number = %s AND session_id = %s;

-- name: put_session_state
INSERT INTO session_state VALUES (%s, %s, %s, %s)
ON CONFLICT (fragment_number, session_id)
DO UPDATE SET updated_at = excluded.updated_at, state = excluded.state;

-- name: delete_rule
DELETE FROM rule WHERE fragment_number = %s AND name = %s;

-- name: insert_rule
INSERT INTO rule (fragment_number, name, definition, created_at)
VALUES (%s, %s, %s, %s);

-- name: rules
SELECT fragment_number, name, definition, created_at FROM rule
ORDER BY fragment_number, created_at, rule_id;

-- name: put_reader_lease
INSERT INTO reader_lease VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (fragment_number) DO UPDATE SET
    reader = excluded.reader,
    epoch = excluded.epoch,
    duration_ms = excluded.duration_ms,
    expires_at = excluded.expires_at,
    planned_from = excluded.planned_from,
    planned_through = excluded.planned_through;

-- name: delete_reader_leases
DELETE FROM reader_lease WHERE fragment_number = ANY (%s);

-- name: reader_leases
SELECT fragment_number, reader, epoch, duration_ms, expires_at, planned_from,
    planned_through
FROM reader_lease ORDER BY fragment_number;

-- name: insert_bodies
INSERT INTO {segment} (body_id, raw) SELECT * FROM unnest(%s, %s);

-- name: insert_body_uses
INSERT INTO {segment} (body_id, use_count) SELECT * FROM unnest(%s, %s);

-- name: count_body_uses
UPDATE body_use AS u SET use_count = u.use_count + r.difference
FROM unnest(%s, %s, %s) AS r (difference, first, last)
WHERE u.body_id BETWEEN r.first AND r.last;

-- name: delete_unused_bodies
-- How many of which segment, of both tables.
WITH unused AS (
    DELETE FROM body_use AS u USING unnest(%s, %s) AS r (first, last)
    WHERE u.body_id BETWEEN r.first AND r.last AND u.use_count <= 0
    RETURNING u.tableoid AS segment, u.body_id),
gone AS (
    DELETE FROM shared_body AS b USING unused
    WHERE b.body_id = unused.body_id RETURNING b.tableoid AS segment)
SELECT segment::bigint, count(*) FROM (
    SELECT segment FROM unused UNION ALL SELECT segment FROM gone) AS removed
GROUP BY segment;

-- name: has_bodies
SELECT EXISTS (SELECT 1 FROM shared_body WHERE body_id BETWEEN %s AND %s);

-- name: due
SELECT {columns} FROM (SELECT *, sum(octet_length(raw)) OVER (
        ORDER BY scheduled_at, row_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before FROM (
    SELECT {message}, 2 AS state, m.scheduled_at FROM scheduled AS m
    WHERE m.scheduled_at <= %(now)s AND NOT m.row_id >> 48 = ANY (%(without)s)
    ORDER BY m.scheduled_at, m.row_id LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s
ORDER BY scheduled_at, row_id;

-- name: next_scheduled_at
SELECT coalesce((
    SELECT scheduled_at FROM scheduled WHERE NOT row_id >> 48 = ANY (%s)
    ORDER BY scheduled_at LIMIT 1), 0);

-- name: expired
SELECT {columns}, expiry_bucket FROM (SELECT *, sum(octet_length(raw)) OVER (
        ORDER BY expiry_bucket, row_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before FROM (
    SELECT {message}, 0 AS state, 0 AS scheduled_at, m.expiry_bucket FROM message AS m
    WHERE (m.expiry_bucket, m.row_id) > (%(bucket)s, %(row_id)s)
        AND m.expiry_bucket < %(current_bucket)s AND m.expiry_bucket IS NOT NULL
    ORDER BY m.expiry_bucket, m.row_id LIMIT %(limit)s) AS found) AS counted
WHERE bytes_before IS NULL OR bytes_before < %(limit_bytes)s
ORDER BY expiry_bucket, row_id;

-- name: purge_active
DELETE FROM message WHERE row_id IN (
    SELECT row_id FROM message WHERE row_id BETWEEN %s AND %s ORDER BY row_id LIMIT %s)
RETURNING row_id, CASE WHEN is_shared <> 0 THEN body_id END, tableoid::bigint;

-- name: purge_deferred
DELETE FROM deferred WHERE row_id IN (
    SELECT row_id FROM deferred WHERE row_id BETWEEN %s AND %s ORDER BY row_id LIMIT %s)
RETURNING row_id, CASE WHEN is_shared <> 0 THEN body_id END, tableoid::bigint;

-- name: purge_scheduled
DELETE FROM scheduled WHERE row_id IN (
    SELECT row_id FROM scheduled WHERE row_id BETWEEN %s AND %s
    ORDER BY row_id LIMIT %s)
RETURNING row_id, CASE WHEN is_shared <> 0 THEN body_id END, tableoid::bigint;

-- name: purge_ledger_ids
DELETE FROM ledger_id WHERE fragment_number = %(number)s AND unique_id IN (
    SELECT unique_id FROM ledger_id WHERE fragment_number = %(number)s LIMIT %(limit)s)
RETURNING 1;

-- name: purge_session_states
DELETE FROM session_state WHERE fragment_number = %(number)s AND session_id IN (
    SELECT session_id FROM session_state WHERE fragment_number = %(number)s
    LIMIT %(limit)s)
RETURNING 1;

-- name: purge_rules
DELETE FROM rule WHERE fragment_number = %(number)s AND name IN (
    SELECT name FROM rule WHERE fragment_number = %(number)s LIMIT %(limit)s)
RETURNING 1;

-- name: insert_outbox
INSERT INTO outbox (entry_id, target, raw, origin) VALUES (%s, %s, %s, %s);

-- name: delete_outbox
DELETE FROM outbox WHERE entry_id = ANY (%s);

-- name: outbox
-- An entry is read if those before it have fewer bytes than the limit.
SELECT entry_id, target, raw, origin FROM (
    SELECT entry_id, target, raw, origin, coalesce(sum(octet_length(raw)) OVER (
        ORDER BY entry_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS bytes_before
    FROM (
        SELECT entry_id, target, raw, origin FROM outbox
        WHERE entry_id > %(after)s
            AND substring(target FROM 1 FOR octet_length(%(lane)s::bytea))
                = %(lane)s::bytea
        ORDER BY entry_id LIMIT %(limit)s) AS portion) AS summed
WHERE bytes_before < %(limit_bytes)s ORDER BY entry_id;

-- name: outbox_totals
SELECT target, origin, count(*)::bigint, sum(octet_length(raw))::bigint FROM outbox
GROUP BY target, origin;

-- name: add_range
-- One row takes the place of the ranges that overlap or adjoin first..last.
WITH touching AS (
    DELETE FROM ledger_range
    WHERE source = %(source)s AND generation = %(generation)s
        AND first >= coalesce((
            SELECT max(first) FROM ledger_range
            WHERE source = %(source)s AND generation = %(generation)s
                AND first <= %(first)s), %(first)s)
        AND first <= %(last)s + 1
        AND last >= %(first)s - 1
    RETURNING first, last)
INSERT INTO ledger_range
SELECT %(source)s, %(generation)s, least(%(first)s, min(first)),
    greatest(%(last)s, max(last))
FROM touching;

-- name: restored
SELECT asked.number FROM unnest(%(sequences)s) AS asked (number)
WHERE asked.number <= (
    SELECT r.last FROM ledger_range AS r
    WHERE r.source = %(source)s AND r.generation = %(generation)s
        AND r.first <= asked.number
    ORDER BY r.first DESC LIMIT 1);

-- name: put_ledger_ids
INSERT INTO ledger_id SELECT * FROM unnest(%s, %s, %s)
ON CONFLICT (fragment_number, unique_id) DO UPDATE
SET forget_at = greatest(ledger_id.forget_at, excluded.forget_at);

-- name: seen
SELECT unique_id FROM ledger_id
WHERE fragment_number = %s AND unique_id = ANY (%s) AND forget_at > %s;

-- name: trim_ledger_ids
DELETE FROM ledger_id WHERE (fragment_number, unique_id) IN (
    SELECT fragment_number, unique_id FROM ledger_id WHERE forget_at <= %s
    ORDER BY forget_at LIMIT %s)
RETURNING 1;

-- name: trim_operations
UPDATE twinbus_meta SET trimmed_through = %(through)s
WHERE trimmed_through < %(through)s;

-- name: has_export_positions
SELECT to_regclass('operation_export') IS NOT NULL;

-- name: make_export_positions
-- Made by the first export: a store that is not exported has none.
CREATE TABLE IF NOT EXISTS operation_export (
    folder text PRIMARY KEY,
    -- Everything up to this commit is in synced files.
    batch bigint NOT NULL
);

-- name: note_exported
INSERT INTO operation_export VALUES (%s, %s)
ON CONFLICT (folder) DO UPDATE SET batch = excluded.batch;

-- name: exported_through
SELECT min(batch) FROM operation_export;

-- name: operations
SELECT batch, operations FROM journal
WHERE batch > greatest(%s, (SELECT trimmed_through FROM twinbus_meta))
    AND operations IS NOT NULL
ORDER BY batch LIMIT %s;

-- name: segments
SELECT p.relname, c.relname, c.oid::bigint, pg_relation_size(c.oid),
    pg_total_relation_size(c.oid)
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_class AS p ON p.oid = i.inhparent
WHERE p.relnamespace = current_schema()::regnamespace
ORDER BY c.oid;

-- name: make_segment
CREATE TABLE {segment} (LIKE {parent} INCLUDING ALL) INHERITS ({parent})
WITH (autovacuum_enabled = false);

-- name: segment_oid
SELECT '{segment}'::regclass::oid::bigint;

-- name: lock_segment
-- Without waiting: others would have to wait behind.
LOCK TABLE ONLY {segment} IN ACCESS EXCLUSIVE MODE NOWAIT;

-- name: is_empty
SELECT NOT EXISTS (SELECT 1 FROM ONLY {segment});

-- name: truncate_segment
TRUNCATE ONLY {segment};

-- name: count_segment
SELECT count(*) FROM (SELECT 1 FROM ONLY {segment} LIMIT %s) AS found;

-- name: last_of_journal
SELECT coalesce((SELECT batch FROM ONLY {segment} ORDER BY batch DESC LIMIT 1), 0);

-- name: empty_segment
-- A portion of its rows goes to another segment.
WITH moved AS (
    DELETE FROM ONLY {segment} WHERE {key} IN (
        SELECT {key} FROM ONLY {segment} WHERE {key} > %s ORDER BY {key} LIMIT %s)
    RETURNING *)
INSERT INTO {target} SELECT * FROM moved RETURNING {key};

-- name: stored_bytes
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';

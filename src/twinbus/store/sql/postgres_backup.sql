-- Statements of `backup/postgres_source.py` and `backup/postgres_target.py`.

-- name: no_timeout
SET statement_timeout = 0;

-- name: no_idle_timeout
SET idle_in_transaction_session_timeout = 0;

-- name: read_all
-- Sessions of a store switch this off.
SET enable_seqscan = on;

-- name: hold_store
SELECT epoch FROM lease FOR UPDATE NOWAIT;

-- name: hold_catalog
SELECT version FROM twinbus_meta FOR UPDATE NOWAIT;

-- name: begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: keep_segments
-- Before the snapshot is taken: a segment that is truncated later would look empty.
LOCK TABLE message, journal, shared_body, body_use IN ACCESS SHARE MODE;

-- name: identity
SELECT store_uuid, format_version, epoch, fragments_through, trimmed_through,
    coalesce((SELECT batch FROM journal ORDER BY batch DESC LIMIT 1), 0)
FROM twinbus_meta, lease;

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum;

-- name: count
SELECT count(*) FROM {table};

-- name: put_meta
UPDATE twinbus_meta SET store_uuid = %s, fragments_through = %s, trimmed_through = %s;

-- name: put_epoch
UPDATE lease SET epoch = %s, owner = NULL, application = NULL, granted_at = NULL;

-- name: end_readers
UPDATE reader_lease SET epoch = greatest(epoch + 1, %s), expires_at = 0;

-- name: rename_targets
UPDATE outbox SET target =
    convert_to(replace(convert_from(target, 'UTF8'), %s, %s), 'UTF8');

-- name: rename_ledger
UPDATE ledger_range SET generation = %s
WHERE source = convert_to(%s, 'UTF8') AND generation = %s;

-- name: put_definition
UPDATE entity SET definition = %s WHERE generation = %s;

-- name: next_rule
-- The next rule is the latest.
SELECT setval(pg_get_serial_sequence('rule', 'rule_id'),
    (SELECT coalesce(max(rule_id), 0) + 1 FROM rule), false);

-- name: is_untouched
-- Nobody has taken the store since it was restored.
SELECT owner IS NULL AND epoch = %s FROM lease;

-- name: drop_schema
DROP SCHEMA IF EXISTS {schema} CASCADE;

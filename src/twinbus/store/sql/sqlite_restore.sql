-- Statements of `backup/sqlite_target.py`: a copy of a store becomes a store of its own.

-- name: put_uuid
UPDATE meta SET store_uuid = ?;

-- name: put_epoch
UPDATE lease SET epoch = ?, beat = beat + 1, owner = NULL, pid = NULL,
    process_start = NULL, host = NULL, file = NULL, taken_at = NULL;

-- name: skip_sequences
UPDATE fragment SET next_sequence = next_sequence + ?;

-- name: end_readers
UPDATE reader_lease SET epoch = max(epoch + 1, ?), expires_at = 0;

-- name: rename_targets
UPDATE outbox SET target = replace(target, ?, ?);

-- name: rename_ledger
UPDATE ledger_range SET generation = ? WHERE source = ? AND generation = ?;

-- name: definitions
SELECT generation, definition FROM entity;

-- name: put_definition
UPDATE entity SET definition = ? WHERE generation = ?;

-- Statements of `sqlite_catalog.py`.

-- name: entities
SELECT namespace, path, kind, generation, description, created_at, updated_at,
    placement
FROM entity ORDER BY namespace_key, path_key;

-- name: put_entity
INSERT OR REPLACE INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_entity
DELETE FROM entity WHERE namespace_key = ? AND path_key = ?;

-- name: unfinished
SELECT kind, namespace, path, generation, store_uuid, noted_at
FROM unfinished ORDER BY generation, store_uuid;

-- name: put_unfinished
INSERT OR REPLACE INTO unfinished
    (kind, namespace, path, generation, store_uuid, noted_at)
VALUES (?, ?, ?, ?, ?, ?);

-- name: finish_generation
DELETE FROM unfinished WHERE generation = ?;

-- name: finish
DELETE FROM unfinished WHERE generation = ? AND store_uuid = ?;

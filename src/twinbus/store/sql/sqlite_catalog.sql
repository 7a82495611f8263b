-- Statements of `sqlite_catalog.py`.

-- name: entities
SELECT namespace, path, kind, generation, description, created_at, updated_at,
    placement
FROM entity ORDER BY namespace_key, path_key;

-- name: put_entity
INSERT OR REPLACE INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_entity
DELETE FROM entity WHERE namespace_key = ? AND path_key = ?;

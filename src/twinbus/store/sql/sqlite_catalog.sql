-- Statements of `sqlite_catalog.py`.

-- part: entity
namespace, path, kind, generation, description, created_at, updated_at, placement

-- name: entities
SELECT {entity} FROM entity ORDER BY namespace_key, path_key;

-- name: put_entity
INSERT INTO entity (namespace_key, path_key, {entity}, created_version, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
ON CONFLICT (namespace_key, path_key) DO UPDATE SET
    namespace = excluded.namespace,
    path = excluded.path,
    kind = excluded.kind,
    generation = excluded.generation,
    description = excluded.description,
    created_at = excluded.created_at,
    updated_at = excluded.updated_at,
    placement = excluded.placement,
    -- On the right of it the row is what it was before.
    created_version = CASE WHEN generation = excluded.generation
        THEN created_version ELSE excluded.created_version END,
    version = excluded.version;

-- name: remove_entity
DELETE FROM entity WHERE namespace_key = ? AND path_key = ?;

-- name: next_version
UPDATE meta SET version = version + 1;

-- name: versions
SELECT version, forgotten_through, identity FROM meta;

-- name: created_since
SELECT {entity} FROM entity WHERE version > ?1 AND created_version > ?1
ORDER BY namespace_key, path_key;

-- name: updated_since
SELECT {entity} FROM entity WHERE version > ?1 AND created_version <= ?1
ORDER BY namespace_key, path_key;

-- name: removed_since
SELECT namespace, path, generation FROM removed_entity WHERE version > ?
ORDER BY namespace_key, path_key;

-- name: note_removal
-- Nothing, if there is no such entity.
INSERT OR REPLACE INTO removed_entity
SELECT namespace_key, path_key, namespace, path, generation, ?3 FROM entity
WHERE namespace_key = ?1 AND path_key = ?2;

-- name: forget_removal
DELETE FROM removed_entity WHERE namespace_key = ? AND path_key = ?;

-- name: forget_through
-- The version of the first removal that is too many.
UPDATE meta SET forgotten_through = max(forgotten_through, coalesce((
    SELECT version FROM removed_entity ORDER BY version DESC LIMIT 1 OFFSET ?), 0));

-- name: forget_removals
DELETE FROM removed_entity WHERE version <= (SELECT forgotten_through FROM meta);

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

-- name: cluster_key
SELECT cluster_key FROM meta;

-- name: root_key
SELECT root_key FROM meta;

-- name: propose_root_key
UPDATE meta SET root_key = ? WHERE root_key = '';

-- name: marks
SELECT moved_to, moved_from FROM meta;

-- name: mark_moved
-- Code that does not know the mark must not use it.
UPDATE meta SET moved_to = ?, min_reader_version = 6;

-- name: mark_arriving
UPDATE meta SET moved_from = ?, moved_to = '', min_reader_version = 6;

-- name: mark_arrived
UPDATE meta SET moved_from = '', min_reader_version = 3;

-- name: put_meta
UPDATE meta SET identity = ?1, version = ?2, forgotten_through = ?2, cluster_key = ?3,
    root_key = ?4;

-- name: clear_entities
DELETE FROM entity;

-- name: clear_removals
DELETE FROM removed_entity;

-- name: clear_unfinished
DELETE FROM unfinished;

-- name: clear_brokers
DELETE FROM broker;

-- name: announce
INSERT OR REPLACE INTO broker (broker_uuid, address, beat, description)
VALUES (?, ?, ?, ?);

-- name: brokers
SELECT broker_uuid, address, beat, description FROM broker ORDER BY broker_uuid;

-- name: withdraw
DELETE FROM broker WHERE broker_uuid = ?;

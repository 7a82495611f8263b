-- Statements of `postgres_catalog.py`.

-- part: entity
namespace, path, kind, generation, description, created_at, updated_at, placement

-- name: entities
SELECT {entity} FROM entity ORDER BY namespace_key, path_key;

-- name: put_entity
INSERT INTO entity AS e (namespace_key, path_key, {entity}, created_version, version)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, m.version, m.version
FROM twinbus_meta AS m
ON CONFLICT (namespace_key, path_key) DO UPDATE SET
    namespace = excluded.namespace,
    path = excluded.path,
    kind = excluded.kind,
    generation = excluded.generation,
    description = excluded.description,
    created_at = excluded.created_at,
    updated_at = excluded.updated_at,
    placement = excluded.placement,
    created_version = CASE WHEN e.generation = excluded.generation
        THEN e.created_version ELSE excluded.created_version END,
    version = excluded.version;

-- name: remove_entity
DELETE FROM entity WHERE namespace_key = %s AND path_key = %s;

-- name: next_version
UPDATE twinbus_meta SET version = version + 1;

-- name: lock
-- Of writes that make no version.
SELECT 1 FROM twinbus_meta FOR UPDATE;

-- name: versions
SELECT version, forgotten_through, identity FROM twinbus_meta;

-- name: created_since
SELECT {entity} FROM entity
WHERE version > %(version)s AND created_version > %(version)s
ORDER BY namespace_key, path_key;

-- name: updated_since
SELECT {entity} FROM entity
WHERE version > %(version)s AND created_version <= %(version)s
ORDER BY namespace_key, path_key;

-- name: removed_since
SELECT namespace, path, generation FROM removed_entity WHERE version > %(version)s
ORDER BY namespace_key, path_key;

-- name: note_removal
-- Nothing, if there is no such entity.
INSERT INTO removed_entity
SELECT e.namespace_key, e.path_key, e.namespace, e.path, e.generation, m.version
FROM entity AS e, twinbus_meta AS m WHERE e.namespace_key = %s AND e.path_key = %s
ON CONFLICT (namespace_key, path_key) DO UPDATE SET
    namespace = excluded.namespace,
    path = excluded.path,
    generation = excluded.generation,
    version = excluded.version;

-- name: forget_removal
DELETE FROM removed_entity WHERE namespace_key = %s AND path_key = %s;

-- name: forget_through
-- The version of the first removal that is too many.
UPDATE twinbus_meta SET forgotten_through = greatest(forgotten_through, coalesce((
    SELECT version FROM removed_entity ORDER BY version DESC LIMIT 1 OFFSET %s), 0));

-- name: forget_removals
DELETE FROM removed_entity
WHERE version <= (SELECT forgotten_through FROM twinbus_meta);

-- name: unfinished
SELECT kind, namespace, path, generation, store_uuid, noted_at
FROM unfinished ORDER BY generation, store_uuid;

-- name: put_unfinished
INSERT INTO unfinished (kind, namespace, path, generation, store_uuid, noted_at)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (generation, store_uuid) DO UPDATE SET
    kind = excluded.kind,
    namespace = excluded.namespace,
    path = excluded.path,
    noted_at = excluded.noted_at;

-- name: finish_generation
DELETE FROM unfinished WHERE generation = %s;

-- name: finish
DELETE FROM unfinished WHERE generation = %s AND store_uuid = %s;

-- name: check_version
-- Fails if the version before this one was another: a division by zero.
SELECT 1 / (version - 1 = %s)::int FROM twinbus_meta;

-- name: cluster_key
SELECT cluster_key FROM twinbus_meta;

-- name: root_key
SELECT root_key FROM twinbus_meta;

-- name: propose_root_key
UPDATE twinbus_meta SET root_key = %s WHERE root_key = '';

-- name: refuse_moved
-- Fails if the catalog was moved: a number that is too large for its type.
SELECT (32767 + length(moved_to))::smallint FROM twinbus_meta;

-- name: marks
SELECT moved_to, moved_from FROM twinbus_meta;

-- name: mark_moved
-- Code that does not know the mark must not use it.
UPDATE twinbus_meta SET moved_to = %s, min_reader_version = 3;

-- name: mark_arriving
UPDATE twinbus_meta SET moved_from = %s, moved_to = '', min_reader_version = 3;

-- name: mark_arrived
UPDATE twinbus_meta SET moved_from = '', min_reader_version = 1;

-- name: put_meta
UPDATE twinbus_meta SET identity = %(identity)s, version = %(version)s,
    forgotten_through = %(version)s, cluster_key = %(cluster_key)s,
    root_key = %(root_key)s;

-- name: clear_entities
DELETE FROM entity;

-- name: clear_removals
DELETE FROM removed_entity;

-- name: clear_unfinished
DELETE FROM unfinished;

-- name: clear_brokers
DELETE FROM broker;

-- name: without_sync
SET LOCAL synchronous_commit = off;

-- name: announce
INSERT INTO broker (broker_uuid, address, beat, description)
VALUES (%s, %s, %s, %s)
ON CONFLICT (broker_uuid) DO UPDATE SET
    address = excluded.address,
    beat = excluded.beat,
    description = excluded.description;

-- name: brokers
SELECT broker_uuid, address, beat, description FROM broker ORDER BY broker_uuid;

-- name: withdraw
DELETE FROM broker WHERE broker_uuid = %s;

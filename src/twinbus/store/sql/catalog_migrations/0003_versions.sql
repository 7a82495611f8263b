-- Format 3 of the catalog: what changed since a version. Code that does not know
-- versions would change entities without telling: hence the reader's version.

UPDATE meta SET format_version = 3, min_reader_version = 3;

-- Of the last write. What is in the catalog now counts as created by the first.
ALTER TABLE meta ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
-- Removals up to this version may be forgotten.
ALTER TABLE meta ADD COLUMN forgotten_through INTEGER NOT NULL DEFAULT 0;

-- Of the write that created this generation of the entity, and of the last that
-- changed it.
ALTER TABLE entity ADD COLUMN created_version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE entity ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
CREATE INDEX entity_version ON entity (version);

-- Paths at which there is nothing any more. Only the last ones are kept.
CREATE TABLE removed_entity (
    namespace_key TEXT NOT NULL,
    path_key TEXT NOT NULL,
    namespace TEXT NOT NULL,
    path TEXT NOT NULL,
    generation BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (namespace_key, path_key)
) WITHOUT ROWID;
CREATE INDEX removed_entity_version ON removed_entity (version);

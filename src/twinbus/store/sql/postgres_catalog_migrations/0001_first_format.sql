-- Format 1 of the catalog.

CREATE TABLE twinbus_meta (
    -- 'catalog'; a store has another kind.
    kind text NOT NULL,
    format_version bigint NOT NULL,
    -- The oldest format whose code can read and write this schema.
    min_reader_version bigint NOT NULL,
    -- A catalog that is made again has another one.
    identity bytea NOT NULL,
    -- Of the last write. Each write locks this row first.
    version bigint NOT NULL,
    -- Removals up to this version may be forgotten.
    forgotten_through bigint NOT NULL
);
INSERT INTO twinbus_meta VALUES (
    'catalog', 1, 1, decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 1, 0);

-- Texts are bytes, in UTF-8: a text of PostgreSQL cannot have a zero in it, and has an
-- order of its own.
CREATE TABLE entity (
    -- Lower case: what entities are compared by.
    namespace_key bytea NOT NULL,
    path_key bytea NOT NULL,
    namespace bytea NOT NULL,
    path bytea NOT NULL,
    kind text NOT NULL,
    generation bytea NOT NULL,
    -- A JSON object.
    description text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    -- Store uuid of each fragment, in hexadecimal.
    placement text NOT NULL,
    -- Of the write that created this generation, and of the last that changed it.
    created_version bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (namespace_key, path_key)
);
CREATE INDEX entity_version ON entity (version);

-- Paths at which there is nothing any more. Only the last ones are kept.
CREATE TABLE removed_entity (
    namespace_key bytea NOT NULL,
    path_key bytea NOT NULL,
    namespace bytea NOT NULL,
    path bytea NOT NULL,
    generation bytea NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (namespace_key, path_key)
);
CREATE INDEX removed_entity_version ON removed_entity (version);

-- Fragments that are to be dropped, and nothing else is: those of a creation that has
-- not ended ("intent"), those of an entity that was removed ("tombstone").
CREATE TABLE unfinished (
    generation bytea NOT NULL,
    store_uuid bytea NOT NULL,
    kind text NOT NULL,
    namespace bytea NOT NULL,
    path bytea NOT NULL,
    noted_at bigint NOT NULL,
    PRIMARY KEY (generation, store_uuid)
);

-- Brokers announce themselves here so that others find them.
CREATE TABLE broker (
    broker_uuid bytea PRIMARY KEY,
    address text NOT NULL,
    -- Raised by every announcement: a row that stays the same is of a dead broker.
    beat bigint NOT NULL,
    -- A JSON object: protocol version, owned stores.
    description text NOT NULL
);

-- Format 2 of the catalog: the key of the cluster. Older code leaves it alone, so it can
-- go on.

-- With this brokers show each other that they belong together.
ALTER TABLE twinbus_meta ADD COLUMN cluster_key bytea NOT NULL DEFAULT '';
UPDATE twinbus_meta SET format_version = 2, cluster_key = decode(
    replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');

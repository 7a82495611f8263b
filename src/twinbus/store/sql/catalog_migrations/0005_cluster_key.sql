-- Format 5 of the catalog: the key of the cluster. Older code leaves it alone, so it can
-- go on.

UPDATE meta SET format_version = 5;

-- With this brokers show each other that they belong together.
ALTER TABLE meta ADD COLUMN cluster_key BLOB NOT NULL DEFAULT x'';
UPDATE meta SET cluster_key = randomblob(32);

-- Format 4 of the catalog: its identity, so that who follows it notices that it was made
-- again. Code that does not know it can go on: it would not notice.

UPDATE meta SET format_version = 4;

ALTER TABLE meta ADD COLUMN identity BLOB NOT NULL DEFAULT X'';
UPDATE meta SET identity = randomblob(16);

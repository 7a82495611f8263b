-- Format 6 of the catalog: the key of the root rule, for brokers with data folders of
-- their own, and whether the catalog was moved. Older code leaves both alone, so it can
-- go on; a catalog that was moved gets a reader's version that keeps it out.

UPDATE meta SET format_version = 6;

-- Empty: it is in the data folder.
ALTER TABLE meta ADD COLUMN root_key TEXT NOT NULL DEFAULT '';
-- Where the catalog is now; empty: here.
ALTER TABLE meta ADD COLUMN moved_to TEXT NOT NULL DEFAULT '';
-- Where it comes from, while it is being moved to here.
ALTER TABLE meta ADD COLUMN moved_from TEXT NOT NULL DEFAULT '';

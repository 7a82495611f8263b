-- Format 3 of the catalog: the key of the root rule, for brokers with data folders of
-- their own, and whether the catalog was moved. Older code leaves both alone, so it can
-- go on; a catalog that was moved gets a reader's version that keeps it out.

-- Empty: it is in the data folder.
ALTER TABLE twinbus_meta ADD COLUMN root_key text NOT NULL DEFAULT '';
-- Where the catalog is now; empty: here.
ALTER TABLE twinbus_meta ADD COLUMN moved_to text NOT NULL DEFAULT '';
-- Where it comes from, while it is being moved to here.
ALTER TABLE twinbus_meta ADD COLUMN moved_from text NOT NULL DEFAULT '';
UPDATE twinbus_meta SET format_version = 3;

-- Format 3: readers of ranges. Code that does not know them would hand out, or let
-- expire, what a reader was promised: hence the reader's version.

UPDATE meta SET format_version = 3, min_reader_version = 3;

-- At most one for a fragment, see broker/reader_lease.py. `expires_at` 0: over.
CREATE TABLE reader_lease (
    fragment_number INTEGER PRIMARY KEY,
    reader TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    planned_from INTEGER NOT NULL,
    planned_through INTEGER NOT NULL
);

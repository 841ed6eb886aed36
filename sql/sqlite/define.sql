-- What the other files of this dialect share.

-- SQLite has no clock of its own: without a test's instant it is the process's.
-- define: now
@now

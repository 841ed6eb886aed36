-- Definitions for the other files of this dialect.

-- SQLite has no clock of its own: without a test's instant it is the process's.
-- define: now
@now

-- The queries of the doctor. The clock is this process's own, and only a file's readers can hold anything back:
-- statements without a meaning here return nothing.

-- name: doctor_settings
select 'journal_mode' as name, journal_mode as value from pragma_journal_mode
union all
select 'synchronous', cast(synchronous as text) from pragma_synchronous
union all
select 'version', sqlite_version();

-- name: doctor_clock
select cast((julianday('now') - 2440587.5) * 86400000000 as integer) as now;

-- name: doctor_held
select '' as who, '' as what, 0.0 as age where false;

-- name: doctor_names
select name, true as valid from sqlite_master where type in ('index', 'trigger');

-- name: doctor_vacuum
select '' as options where false;

-- name: doctor_file
select file from pragma_database_list where name = 'main';

-- name: doctor_sequences
select '' as name, 0 as reached, 0 as used where false;

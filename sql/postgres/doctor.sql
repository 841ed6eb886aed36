-- The queries of the doctor. Values that the role may not see are null.

-- name: doctor_settings
select name, setting as value from pg_settings
where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'transaction_read_only',
               'synchronous_standby_names')
union all
select 'in_recovery', case when pg_is_in_recovery() then 'on' else 'off' end;

-- name: doctor_clock
select clock_timestamp() as now;

-- A session with a snapshot or a transaction number keeps vacuum from removing later rows.
-- name: doctor_held
select who, what, age from (
  select 'process ' || pid || coalesce(' of ' || usename, '') || coalesce(' (' || nullif(application_name, '') || ')', '') as who,
    coalesce(state, 'unknown') as what,
    extract(epoch from clock_timestamp() - xact_start)::float8 as age
  from pg_stat_activity
  where (backend_xmin is not null or backend_xid is not null) and xact_start is not null
    and pid <> pg_backend_pid() and datname = current_database()
  union all
  select 'prepared transaction ' || quote_literal(gid) || ' of ' || owner, 'prepared',
    extract(epoch from clock_timestamp() - prepared)::float8
  from pg_prepared_xacts where database = current_database()
) held
order by age desc limit 20;

-- name: doctor_names
select c.relname as name, i.indisvalid as valid
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = {schema_text}
union all
select t.tgname, t.tgenabled <> 'D'
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = {schema_text} and not t.tgisinternal;

-- name: doctor_vacuum
select coalesce(array_to_string(reloptions, ','), '') as options
from pg_class where oid = to_regclass({work_text});

-- name: doctor_file
select '' as file where false;

-- Logical replication copies rows, not sequences: on a promoted replica they lag behind the data. No index leads to
-- the largest delivery_id of the outcomes. To avoid reading a long history, the last 1 GiB of the table and the
-- newest 1,000 messages stand for all. `reached` is null if the role may not read the sequence.
-- name: doctor_sequences
with counter (table_name, column_name, used) as (
  select {message_text}, 'number', (select max(number) from {message})
  union all
  select {work_text}, 'id', greatest(
    (select max(id) from {work}),
    (select max(newest.delivery_id) from (select delivery_id from {outcome} order by number desc limit 1000) newest),
    (select max(delivery_id) from {outcome} where ctid >= (
      select format('(%s,0)', greatest(0, (pg_relation_size({outcome_text}::regclass) - 1073741824)
                                          / current_setting('block_size')::bigint))::tid)))
  union all
  select {failure_text}, 'id', (select max(id) from {failure})
  union all
  select {audit_text}, 'id', (select max(id) from {audit})
), sequence as (
  select table_name || '.' || column_name as name, used,
    pg_get_serial_sequence(table_name, column_name)::regclass as id
  from counter
), seen as (
  select name, used, has_sequence_privilege(id, 'select') as allowed,
    case when has_sequence_privilege(id, 'select') then coalesce(pg_sequence_last_value(id), 0) end as reached
  from sequence
)
select name, reached, coalesce(used, 0) as used from seen where not allowed or reached < used order by name;

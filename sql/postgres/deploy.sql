-- The statements of a deployment.

-- One deployment at a time: "if not exists" alone fails for two at the same moment.
-- name: deploy_alone
select pg_advisory_xact_lock(hashtextextended('twinbox schema', 0));

-- A role without the right to create schemas deploys into an existing one: "if not exists" alone would require that
-- right.
-- name: create_schema
do $twinbox$
begin
  if not exists (select 1 from pg_namespace where nspname = {schema_text}) then
    create schema {schema};
  end if;
end $twinbox$;

-- name: applied
select name, coalesce(version, 0) as version, hash from {version} where box = @box::text;

-- name: write_applied
delete from {version} where box = @box::text and name = @name::text;
insert into {version} (box, name, version, hash)
values (@box::text, @name::text, @version::integer, @hash::text);

-- name: functions
select p.proname::text as name, p.prosrc as body, p.oid::text as id, p.xmin::text as written,
  p.oid::regprocedure::text as signature, coalesce((
    select string_agg(case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
                      || case when a.is_grantable then ' with grant option' else '' end, E'\n')
    from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee <> p.proowner), '') as grants
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = @schema::text;

-- Sets each sequence that lags behind the data to the highest number in use, never back. Writes are locked out: a
-- number drawn meanwhile could be drawn twice.
-- name: repair_sequences
lock table {message}, {work}, {failure}, {audit} in share row exclusive mode;
with counter (table_name, column_name, used) as (
  select {message_text}, 'number', (select max(number) from {message})
  union all
  select {work_text}, 'id', greatest((select max(id) from {work}), (select max(delivery_id) from {outcome}))
  union all
  select {failure_text}, 'id', (select max(id) from {failure})
  union all
  select {audit_text}, 'id', (select max(id) from {audit})
), sequence as materialized (
  select table_name || '.' || column_name as name, used, id, coalesce(pg_sequence_last_value(id), 0) as reached
  from counter, lateral (select pg_get_serial_sequence(table_name, column_name)::regclass as id) found
)
select name, reached, setval(id, used) as used from sequence where reached < used;

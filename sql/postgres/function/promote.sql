-- Whoever removes the head of a partition key lets the next one go, under the lock that accept takes for the
-- key. A trigger, so that no way of removing work can forget it.

create or replace function {function:promote_keys}(keys text[], handlers text[])
returns void
language plpgsql {planner} as $twinbox$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform {function:refuse_isolation}('the end of a duty with a partition key');
  end if;
  perform pg_advisory_xact_lock(lock) from (
    select distinct hashtextextended(k, {work_text}::regclass::oid::bigint) as lock
    from unnest(keys) k order by 1) l;
  update {work} w set waiting = false
  where w.waiting and w.id = any(array(
    select (select n.id from {work} n
            where n.partition_key = k.key and n.handler = k.handler order by n.id limit 1)
    from unnest(keys, handlers) k(key, handler)));
  if found then
    perform {wake};
  end if;
end $twinbox$;

create or replace function {function:promote}() returns trigger
language plpgsql as $twinbox$
begin
  if exists (select 1 from gone where partition_key is not null) then
    perform {function:promote_keys}(
      array_agg(g.partition_key), array_agg(g.handler)) from (
        select distinct partition_key, handler from gone where partition_key is not null) g;
  end if;
  return null;
end $twinbox$;

create or replace trigger {name:work_promote} after delete on {work}
referencing old table as gone for each statement execute function {function:promote}();

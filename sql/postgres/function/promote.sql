-- Removing the head of a partition key releases the next delivery, under the lock that accept takes for the key,
-- unless a dead letter holds the key. A trigger, so that every way of removing a delivery does it.

-- `numbers` are those of the messages whose deliveries have ended: a held key of one of them is released.
create or replace function {function:promote_keys}(keys text[], handlers text[], numbers bigint[])
returns void
language plpgsql {planner} as $twinbox$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform {function:refuse_isolation}('the end of a delivery with a partition key');
  end if;
  perform pg_advisory_xact_lock(lock) from (
    select distinct hashtextextended(k, {work_text}::regclass::oid::bigint) as lock
    from unnest(keys) k order by 1) l;
  with over as (
    delete from {hold} h using unnest(numbers, handlers) k(number, handler)
    where h.number = k.number and h.handler = k.handler and h.requeued
  )
  update {work} w set waiting = false
  where w.waiting and w.id = any(array(
    select (select n.id from {work} n
            where n.partition_key = k.key and n.handler = k.handler order by n.id limit 1)
    from unnest(keys, handlers, numbers) k(key, handler, number)
    where not exists (
      select 1 from {hold} h
      where h.partition_key = k.key and h.handler = k.handler and (not h.requeued or h.number <> k.number))));
  if found then
    perform {wake};
  end if;
end $twinbox$;
comment on function {function:promote_keys}(text[], text[], bigint[]) is
  'Internal: releases the next delivery of a partition key.';

create or replace function {function:promote}() returns trigger
language plpgsql as $twinbox$
begin
  if exists (select 1 from gone where partition_key is not null) then
    perform {function:promote_keys}(
      array_agg(g.partition_key), array_agg(g.handler), array_agg(g.number))
    from gone g where g.partition_key is not null;
  end if;
  return null;
end $twinbox$;
comment on function {function:promote}() is
  'Internal: trigger of the table of open deliveries.';

create or replace trigger {name:work_promote} after delete on {work}
referencing old table as gone for each statement execute function {function:promote}();

-- A dead letter that is no longer dead, and was not requeued, releases its key.
create or replace function {function:release_key}() returns trigger
language plpgsql {planner} as $twinbox$
declare
  key text;
begin
  delete from {hold} h where h.number = old.number and h.handler = old.handler returning h.partition_key into key;
  if found then
    perform {function:promote_keys}(array[key], array[old.handler], array[old.number]);
  end if;
  return null;
end $twinbox$;
comment on function {function:release_key}() is
  'Internal: trigger of the table of outcomes.';

create or replace trigger {name:outcome_release_key} after update of state on {outcome}
for each row when (old.state = 2 and new.state <> 2) execute function {function:release_key}();

-- At-most-once deliveries: marked before their handler is called, ended or released afterwards.

-- define: held
w.id = @id::bigint and w.owner = @owner::uuid and w.epoch = @epoch::int

-- define: marked
o.delivery_id = @id::bigint and o.state = 4 and o.handler = @handler::text
  and o.number = (select m.number from {message} m where m.id = @message_id::text and m.source = @source::text)

-- name: mark
with gone as (
  delete from {work} w where {held} returning w.*
)
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       last_error)
select number, id, {now}, @owner::uuid, attempts, expiries, requeues, 4, handler, last_error from gone;

-- @state: 1 done, 2 dead by a call that failed.
-- name: finish_marked
with failed as (
  insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
  select o.number, o.delivery_id, {now}, o.finished_by, least(o.attempts, 2147483646) + 1, o.handler, @error::text
  from {outcome} o where {marked} and @state::int = 2
)
update {outcome} o
set state = @state::int, finished_at = {now}, reason = @reason::text, last_error = coalesce(@error::text, last_error),
    attempts = case when @state::int = 2 then least(o.attempts, 2147483646) + 1 else o.attempts end
where {marked};

-- A failed call counts (@failed 1), a postponed one does not (0). The delivery goes to the end of its key like any
-- new one. A reader that decides by a message's deliveries locks its row: it must never see a state with neither the
-- mark nor the delivery.
-- name: release_marked
select 1 from (
  select pg_advisory_xact_lock(hashtextextended(m.partition_key, {work_text}::regclass::oid::bigint)) as held
  from {message} m
  where m.id = @message_id::text and m.source = @source::text and m.partition_key is not null
) locks where held::text is null;

select 1 from (
  select number from {message} where id = @message_id::text and source = @source::text for update) locked
having count(*) < 0;

with back as (
  delete from {outcome} o where {marked} returning o.*
), again as materialized (
  select b.*, m.partition_key, m.expires_at
  from back b cross join lateral (select partition_key, expires_at from {message} where number = b.number offset 0) m
), failed as (
  insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
  select number, delivery_id, {now}, finished_by, least(attempts, 2147483646) + 1, handler, @error::text from again where @failed::int = 1
)
insert into {work} (number, handler, visible_at, attempts, expiries, requeues, expires_at, last_error, partition_key,
                    waiting)
select a.number, a.handler, greatest({now} + @delay::bigint * interval '1 microsecond', @until::timestamptz),
       case when @failed::int = 1 then least(a.attempts, 2147483646) + 1 else a.attempts end, a.expiries, a.requeues, a.expires_at, coalesce(@error::text, a.last_error), a.partition_key,
       a.partition_key is not null and (
         exists (select 1 from {work} w where w.partition_key = a.partition_key and w.handler = a.handler)
         or exists (select 1 from {hold} h where h.partition_key = a.partition_key and h.handler = a.handler))
from again a
where (select case when count(*) > 0 then {wake} else 0 end from again) = 0;

-- name: discard_held
with gone as (
  delete from {work} w where {held} returning w.*
)
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, id, {now}, @owner::uuid, attempts, expiries, requeues, 3, handler, @reason::text, last_error from gone;

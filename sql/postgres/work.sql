-- The life of a delivery: claimed, settled, swept. `{now}` is the statement's clock, or the test's instant. Every
-- settle names the rows by id, so that a row that was renewed in the meantime is found again. A settle by function
-- returns as many rows as it changed.

-- define: claimed
taken.id, taken.epoch, taken.handler, taken.attempts, taken.expiries, taken.requeues, taken.visible_at,
  taken.lease_until, taken.last_error, m.source, m.id, m.topic, m.payload, m.content_type, m.headers,
  m.correlation_id, m.partition_key, m.hash, m.hash_algorithm, m.due_at, m.expires_at, m.created_at,
  m.last_seen_at, m.seen_count, m.content_version

-- define: lease
set owner = @owner::uuid, epoch = least(w.epoch, 2147483646) + 1,
    lease_until = {now} + @lease::bigint * interval '1 microsecond',
    expiries = case when w.lease_until is null then w.expiries else least(w.expiries, 2147483646) + 1 end

-- The one epoch of all the deliveries, mostly the first; null when they differ. Evaluated once, before the first row.
-- define: common_epoch
(select case when @epoch::int[] = array_fill((@epoch::int[])[1], array[coalesce(cardinality(@id::bigint[]), 0)])
             then (@epoch::int[])[1] end)

-- Whose lease it is. The subquery inside coalesce stays a hashed lookup: as a join its plan would depend
-- on statistics.
-- define: held
w.id = any(@id::bigint[]) and w.owner = @owner::uuid
  and (not @check_epoch::boolean or w.epoch = {common_epoch} or coalesce((w.id, w.epoch) in (
    select k.id, k.epoch from unnest(@id::bigint[], @epoch::int[]) k(id, epoch)), false))

-- Locks by ctid: a TID scan, whatever the statistics say. A row whose last worker died with it (expiries) is handed
-- out alone, so that it cannot affect its neighbours; the oldest one is searched only if there is one. Sorted before
-- the messages are fetched: a sort after it would carry every payload. A delivery whose message row is gone comes
-- without a message: the caller makes it dead.
-- name: claim
with picked as materialized (
  select ctid as place, visible_at, id,
         case when lease_until is null then expiries else least(expiries, 2147483646) + 1 end as expiries
  from {work}
  where not waiting
    and visible_at <= {now} and visible_at >= coalesce(@floor::timestamptz, '-infinity')
    and (lease_until is null or lease_until <= {now})
    and (expires_at is null or expires_at > {now})
  order by visible_at
  limit @limit::bigint
  for update skip locked
), leased as (
  update {work} w {lease}
  where w.ctid = any(case
    when exists (select from picked where expiries > 0) then array(
      select p.place from picked p, (select id, expiries > 0 as alone from picked order by visible_at, id limit 1) o
      where case when o.alone then p.id = o.id else p.expiries = 0 end)
    else array(select place from picked) end)
  returning w.id, w.number, w.epoch, w.handler, w.attempts, w.expiries, w.requeues, w.visible_at, w.lease_until,
            w.last_error
)
select {claimed}
from (select * from leased order by visible_at, id) taken
left join lateral (select * from {message} where number = taken.number offset 0) m on true
order by taken.visible_at, taken.id;
-- call
select * from {function:claim_batch}(
  @owner::uuid, @lease::bigint, @limit::bigint, @floor::timestamptz, @now::timestamptz);

-- The deliveries of one message, for the caller that has just accepted it.
-- name: claim_message
with taken as (
  update {work} w {lease}
  where w.ctid = any(array(
    select d.ctid from {message} m
    cross join lateral (
      select ctid from {work}
      where number = m.number and not waiting and (visible_at <= {now} or not @due_only::boolean)
        and (lease_until is null or lease_until <= {now})
        and (expires_at is null or expires_at > {now})
      for update skip locked) d
    where m.id = @message_id::text and m.source = @source::text))
  returning w.*
)
select {claimed}
from taken
cross join lateral (select * from {message} where number = taken.number offset 0) m
order by taken.visible_at, taken.id;

-- A clock that steps backwards never shortens a lease.
-- name: renew
update {work} w
set lease_until = greatest(w.lease_until, {now} + @lease::bigint * interval '1 microsecond')
where {held} and w.lease_until > {now}
returning w.id;

-- A successful outcome has no error; earlier failures are in the timeline.
-- name: ack
with gone as (
  delete from {work} w where {held}
  returning w.number, w.id, w.attempts, w.expiries, w.requeues, w.handler
)
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler)
select number, id, {now}, @owner::uuid, attempts, expiries, requeues, 1, handler from gone;
-- call
select from generate_series(1, {function:ack}(
  @owner::uuid, @id::bigint[], case when @check_epoch::boolean then @epoch::int[] end, @now::timestamptz));

-- name: attempts
select id, attempts from {work} where id = any(@id::bigint[]);

-- name: abandon
with settled as (
  update {work} w
  set attempts = least(w.attempts, 2147483646) + 1, owner = null, lease_until = null,
      last_error = k.error,
      visible_at = greatest(
        {now} + coalesce(k.delay,
                         least(@max_delay::bigint, @first_delay::bigint * power(2, least(w.attempts, 40)))
                        ) * interval '1 microsecond',
        (select m.due_at from {message} m where m.number = w.number))
  from unnest(@id::bigint[], @error::text[], @delay::bigint[]) k(id, error, delay)
  where k.id = w.id and {held}
  returning w.number, w.id, w.attempts, w.handler, w.last_error
)
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, id, {now}, @owner::uuid, attempts, handler, last_error from settled;
-- call
select from generate_series(1, {function:abandon_batch}(
  @owner::uuid, @id::bigint[], case when @check_epoch::boolean then @epoch::int[] end, @error::text[],
  @delay::bigint[], @first_delay::bigint, @max_delay::bigint, @now::timestamptz));

-- Without an owner it is the operator's form: it skips leased deliveries. A released delivery keeps its position in
-- the order.
-- name: release
with released as (
  update {work} w
  set owner = null, lease_until = null,
      visible_at = case when @until::timestamptz is null then least(w.visible_at, {now})
                        else @until::timestamptz end
  where case
    when @owner::uuid is null then w.id = any(@id::bigint[]) and (w.lease_until is null or w.lease_until <= {now})
    else {held}
  end and w.id = any(@id::bigint[])
  returning w.id
)
select id from released
where (select case when count(*) > 0 then {wake} else 0 end from released) = 0;

-- The deliveries that a claim without an answer has leased to its owner: all except @held, an object of ids and
-- epochs. Claims take the oldest, so they are among the first @limit rows; no index covers leases.
-- name: release_lost
update {work} w set owner = null, lease_until = null
where w.id = any(array(
    select f.id
    from (select id, owner from {work} where not waiting and visible_at <= {now}
          order by visible_at limit @limit::bigint) f
    where f.owner = @owner::uuid))
  and w.owner = @owner::uuid
  and (w.id, w.epoch) not in (select h.key::bigint, h.value::int from json_each_text(@held::json) h)
returning w.id;

-- With @hold_keys a dead letter holds its partition key. The trigger that releases the next delivery runs at the end
-- of the statement, so it finds the key held.
-- name: fail
with gone as (
  delete from {work} w where {held}
  returning w.number, w.id, w.expiries, w.requeues, w.handler, w.partition_key,
            case when @counts::boolean then least(w.attempts, 2147483646) + 1 else w.attempts end as attempts, w.last_error
), holding as (
  insert into {hold} as h (number, handler, partition_key)
  select number, handler, partition_key from gone where @hold_keys::boolean and partition_key is not null
  on conflict (partition_key, handler) do update set requeued = false where h.number = excluded.number
), told as (
  select gone.*, coalesce(k.error, gone.last_error) as error
  from gone
  -- Two leases of one delivery, a stale one and the right one, may come in one call.
  join (select distinct on (id) id, error from unnest(@id::bigint[], @error::text[]) k(id, error)) k using (id)
), failed as (
  insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
  select number, id, {now}, @owner::uuid, attempts, handler, error from told where @counts::boolean
)
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       reason, last_error)
select number, id, {now}, @owner::uuid, attempts, expiries, requeues, 2, handler, @reason::text, error from told;
-- call
select from generate_series(1, {function:fail_batch}(
  @owner::uuid, @id::bigint[], case when @check_epoch::boolean then @epoch::int[] end, @error::text[], @reason::text,
  @counts::boolean, @hold_keys::boolean, @now::timestamptz));

-- name: reap
update {work} w set owner = null, lease_until = null, expiries = least(w.expiries, 2147483646) + 1
where w.ctid = any(array(
  select ctid from {work}
  where lease_until <= {now} limit @limit::bigint for update skip locked))
returning w.id;
-- call
select * from {function:reap}(@limit::bigint, @now::timestamptz);

-- A page of expired leases, and the statement that clears them.
-- name: reap_pick
with old as materialized (
  select id, number from {work}
  where id > @after::bigint and lease_until <= {now}
  order by id limit @limit::bigint for update skip locked
)
select old.id, m.source, m.id as message_id
from old left join lateral (select source, id from {message} where number = old.number offset 0) m on true
order by old.id;

-- name: reap_picked
update {work} w set owner = null, lease_until = null, expiries = least(w.expiries, 2147483646) + 1
where w.id = any(@id::bigint[]) and w.lease_until <= {now}
returning w.id;

-- define: unleased
(w.lease_until is null or w.lease_until <= {now})

-- The keys before the rows, as accept and requeue lock them: a transaction that ends the head of a key holds the key
-- and needs the row of the next one. A key that another transaction holds is skipped: its rows wait for the next
-- time.
-- define: free_keys
locks as materialized (
  select distinct hashtextextended(partition_key, {work_text}::regclass::oid::bigint) as lock
  from old where partition_key is not null order by 1
), held as materialized (
  select lock from locks where pg_try_advisory_xact_lock(lock)
)

-- define: is_free
(old.partition_key is null or coalesce(
  hashtextextended(old.partition_key, {work_text}::regclass::oid::bigint) in (select lock from held), false)) as free

-- A page of open deliveries past their expiry; `free`: no other transaction holds their partition key.
-- name: expire_pick
with old as materialized (
  select w.id, w.number, w.partition_key, w.expires_at from {work} w
  where w.expires_at <= {now} and {unleased}
    and (w.expires_at, w.id) > (coalesce(@after_at::timestamptz, '-infinity'), @after::bigint)
  order by w.expires_at, w.id limit @limit::bigint
), {free_keys}
select old.id, m.source, m.id as message_id, {is_free}, old.expires_at
from old left join lateral (select source, id from {message} where number = old.number offset 0) m on true
order by old.expires_at, old.id;

-- define: of_messages_below
cross join lateral (select source, id, created_at from {message} where number = w.number offset 0) m

-- Numbers follow the time, so a walk over open deliveries ends at the first message that is too young. One from the
-- future (a clock that was wrong) is no end.
-- name: max_age_bound
select w.number
from {work} w {of_messages_below}
where m.created_at > {now} - @max_age::bigint * interval '1 microsecond' and m.created_at <= {now}
order by w.number limit 1;

-- A page of open deliveries of messages that are too old. Requeued deliveries are exempt: an operator sent them.
-- name: max_age_pick
with old as materialized (
  select w.id, w.number, w.handler, w.partition_key, m.source, m.id as message_id
  from {work} w {of_messages_below}
  where w.number < @below::bigint and (w.number, w.handler) > (@after::bigint, @after_handler::text)
    and {unleased} and w.requeues = 0
    and m.created_at <= {now} - @max_age::bigint * interval '1 microsecond'
  order by w.number, w.handler limit @limit::bigint
), {free_keys}
select old.id, old.source, old.message_id, {is_free}, old.number, old.handler
from old order by old.number, old.handler;

-- Ends the picked deliveries. A delivery whose message row is gone comes without a message.
-- name: expire
with gone as (
  delete from {work} w
  where w.ctid = any(array(
    select w.ctid from {work} w
    where w.id = any(@id::bigint[]) and {unleased} and (@reason::text <> 'expired' or w.expires_at <= {now})
    for update skip locked))
  returning w.*
), dead as (
  insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
  select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason::text, last_error from gone
)
select {claimed}
from gone taken
left join lateral (select * from {message} where number = taken.number offset 0) m on true
order by taken.id;

-- How long until something that was not due @window ago becomes due, in microseconds; negative: it is due by now. The
-- previous claim checked older ones; deliveries that are never due are left out.
-- name: next_due
select (extract(epoch from visible_at - {now}) * 1000000)::bigint
from {work}
where not waiting and visible_at > {now} - @window::bigint * interval '1 microsecond' and visible_at < 'infinity'
  and (lease_until is null or lease_until <= {now}) and (expires_at is null or expires_at > {now})
order by visible_at limit 1;

-- The delivery under '' of each message id; an id that several sources share is ambiguous.
-- name: find_due
select a.id, count(*) as sources, min(w.id) as delivery_id
from unnest(@id::text[]) a(id)
cross join lateral (select number from {message} where id = a.id offset 0) m
left join lateral (select id from {work} where number = m.number and handler = '' offset 0) w on true
group by a.id;

-- The life of a delivery: claimed, settled, swept. A block with a column of ids runs once per id; its steps for many, once.

-- define: held
id = @id and owner = @owner and (not @check_epoch or epoch = @epoch)

-- define: rows_held
json_each(@rows) r cross join {work} w on w.id = cast(r.key as integer)
where w.owner = @owner and (not @check_epoch or w.epoch = r.value)

-- define: content
w.last_error, m.source, m.id as message_id, m.topic, m.payload, m.content_type, m.headers, m.correlation_id, m.partition_key, m.hash, m.hash_algorithm, m.due_at,
  m.expires_at, m.created_at, m.last_seen_at, m.seen_count, m.content_version

-- define: claimed
w.id as id, min(w.epoch, 2147483646) + 1 as epoch, w.handler, w.attempts,
  min(w.expiries + (w.lease_until is not null), 2147483647) as expiries,
  w.requeues, w.visible_at, {now} + @lease as lease_until, {content}

-- define: lease
update {work}
set owner = @owner, epoch = min(epoch, 2147483646) + 1, lease_until = {now} + @lease,
    expiries = min(expiries + (lease_until is not null), 2147483647)
where id = @id;

-- define: due
w.waiting = 0
  and w.visible_at <= {now} and w.visible_at >= coalesce(@floor, -9223372036854775807)
  and (w.lease_until is null or w.lease_until <= {now})
  and (w.expires_at is null or w.expires_at > {now})

-- Selecting first and then updating by id is faster here than one UPDATE … RETURNING. A row whose last worker died
-- with it (expiries) is handed out alone, so that it cannot affect its neighbours. The rows come in the order of the
-- index: a sort would carry every payload with it. A delivery whose message row is gone comes without a message: the
-- caller makes it dead.
-- name: claim
with oldest as materialized (
  select w.expiries > 0 or w.lease_until is not null as alone
  from {work} w where {due} order by w.visible_at, w.id limit 1
)
select {claimed}
from {work} w
left join {message} m on m.number = w.number
where {due} and ((select alone from oldest) or (w.expiries = 0 and w.lease_until is null))
order by w.visible_at, w.id
limit case when (select alone from oldest) then 1 else @limit end;
-- each
{lease}

-- name: claim_message
select {claimed}
from {message} m
join {work} w on w.number = m.number
where m.id = @message_id and m.source = @source
  and w.waiting = 0 and (w.visible_at <= {now} or not @due_only)
  and (w.lease_until is null or w.lease_until <= {now})
  and (w.expires_at is null or w.expires_at > {now})
order by w.visible_at, w.id;
-- each
{lease}

-- A clock that steps backwards never shortens a lease.
-- name: renew
update {work} set lease_until = max(lease_until, {now} + @lease)
where {held} and lease_until > {now}
returning id;

-- A successful outcome has no error; earlier failures are in the timeline.
-- name: ack
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler)
select number, id, {now}, @owner, attempts, expiries, requeues, 1, handler from {work} where {held};
delete from {work} where {held};
-- many
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler)
select w.number, w.id, {now}, @owner, w.attempts, w.expiries, w.requeues, 1, w.handler from {rows_held};
-- many
delete from {work} where id in (select w.id from {rows_held});

-- name: attempts
select id, attempts from {work} where id = @id;

-- name: abandon
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, id, {now}, @owner, min(attempts, 2147483646) + 1, handler, @error from {work} where {held};
update {work}
set attempts = min(attempts, 2147483646) + 1, owner = null, lease_until = null, last_error = @error,
    visible_at = max(
      {now} + coalesce(@delay, min(@max_delay, @first_delay * (1 << min(attempts, 40)))),
      coalesce((select m.due_at from {message} m where m.number = {work}.number), {now}))
where {held};

-- Without an owner it is the operator's form: it skips leased deliveries. A released delivery keeps its position in
-- the order.
-- name: release
update {work}
set owner = null, lease_until = null, visible_at = coalesce(@until, min(visible_at, {now}))
where case
  when @owner is null then id = @id and (lease_until is null or lease_until <= {now})
  else {held}
end and id = @id
returning id;

-- The deliveries that a claim without an answer has leased to its owner: all except @held, an object of ids and
-- epochs. Claims take the oldest, so they are among the first @limit rows.
-- name: release_lost
update {work} set owner = null, lease_until = null
where id in (
    select f.id
    from (select w.id, w.owner from {work} w where w.waiting = 0 and w.visible_at <= {now}
          order by w.visible_at limit @limit) f
    where f.owner = @owner)
  and (id, epoch) not in (select cast(h.key as integer), h.value from json_each(@held) h)
returning id;

-- With @hold_keys a dead letter holds its partition key, before the trigger releases the next delivery.
-- name: fail
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, id, {now}, @owner, min(attempts, 2147483646) + 1, handler, coalesce(@error, last_error)
from {work} where {held} and @counts;
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       reason, last_error)
select number, id, {now}, @owner, min(attempts + @counts, 2147483647), expiries, requeues, 2, handler, @reason,
       coalesce(@error, last_error)
from {work} where {held};
insert into {hold} (number, handler, partition_key)
select number, handler, partition_key from {work} where {held} and @hold_keys and partition_key is not null
on conflict (partition_key, handler) do update set requeued = 0 where number = excluded.number;
delete from {work} where {held};

-- name: reap
update {work} set owner = null, lease_until = null, expiries = min(expiries, 2147483646) + 1
where id in (select id from {work} where lease_until <= {now} limit @limit)
returning id;

-- A page of expired leases, and the statement that clears them.
-- name: reap_pick
select w.id, m.source, m.id as message_id
from {work} w left join {message} m on m.number = w.number
where w.id > @after and w.lease_until <= {now}
order by w.id limit @limit;

-- name: reap_picked
update {work} set owner = null, lease_until = null, expiries = min(expiries, 2147483646) + 1
where id = @id and lease_until <= {now}
returning id;

-- define: unleased
(w.lease_until is null or w.lease_until <= {now})

-- A page of open deliveries past their expiry; `free`: no other transaction holds their partition key.
-- name: expire_pick
select w.id, m.source, m.id as message_id, 1 as free, w.expires_at
from {work} w left join {message} m on m.number = w.number
where w.expires_at <= {now} and {unleased}
  and (w.expires_at, w.id) > (coalesce(@after_at, -9223372036854775807), @after)
order by w.expires_at, w.id limit @limit;

-- Numbers follow the time, so a walk over open deliveries ends at the first message that is too young. One from the
-- future (a clock that was wrong) is no end.
-- name: max_age_bound
select w.number
from {work} w cross join {message} m on m.number = w.number
where m.created_at > {now} - @max_age and m.created_at <= {now}
order by w.number limit 1;

-- A page of open deliveries of messages that are too old. Requeued deliveries are exempt: an operator sent them.
-- name: max_age_pick
select w.id, m.source, m.id as message_id, 1 as free, w.number, w.handler
from {work} w cross join {message} m on m.number = w.number
where w.number < @below and (w.number, w.handler) > (@after, @after_handler)
  and {unleased} and w.requeues = 0 and m.created_at <= {now} - @max_age
order by w.number, w.handler limit @limit;

-- Ends the picked deliveries.
-- name: expire
select w.id as id, w.epoch, w.handler, w.attempts, w.expiries, w.requeues, w.visible_at, w.lease_until, {content}
from {work} w
left join {message} m on m.number = w.number
where w.id = @id and {unleased} and (@reason <> 'expired' or w.expires_at <= {now});
-- each
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason, last_error from {work} where id = @id;
-- each
delete from {work} where id = @id;

-- How long until something that was not due @window ago becomes due, in microseconds; negative: it is due by now. The
-- previous claim checked older ones.
-- name: next_due
select visible_at - {now} from {work}
where waiting = 0 and visible_at > {now} - @window
  and (lease_until is null or lease_until <= {now}) and (expires_at is null or expires_at > {now})
order by visible_at limit 1;

-- The delivery under '' of each message id; an id that several sources share is ambiguous.
-- name: find_due
select @id, count(*) as sources, min(w.id) as delivery_id
from {message} m
left join {work} w on w.number = m.number and w.handler = ''
where m.id = @id
having count(*) > 0;

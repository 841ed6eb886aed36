-- Operations: inspect, requeue, discard, edit, prune. Deliveries are named by (number, handler), which stays the same
-- while a delivery moves between work and outcome.

-- One writer at a time: nothing to lock.
-- name: lock_messages
select number from {message} where number = @number;

-- A delivery that holds its key precedes all that wait behind it; any other goes to the end of its key.
-- name: requeue
insert into {work} (number, handler, visible_at, requeues, expires_at, partition_key, waiting)
select o.number, o.handler, {now} + @delay, min(o.requeues, 2147483646) + 1,
       case when m.expires_at > {now} then m.expires_at end, m.partition_key,
       case when h.number is not null then h.number <> o.number
            else exists (select 1 from {work} w where w.partition_key = m.partition_key and w.handler = o.handler) end
from {outcome} o
join {message} m on m.number = o.number
left join {hold} h on h.partition_key = m.partition_key and h.handler = o.handler
where o.number = @number and o.handler = @handler and o.state = 2 and m.payload is not null;
update {hold} set requeued = 1
where number = @number and handler = @handler
  and exists (select 1 from {work} w where w.number = @number and w.handler = @handler);
delete from {outcome}
where number = @number and handler = @handler and state = 2
  and exists (select 1 from {work} w where w.number = @number and w.handler = @handler)
returning number;

-- name: discard
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, id, {now}, attempts, expiries, requeues, 0, handler, @reason, last_error
from {work} where number = @number and handler = @handler;
delete from {work} where number = @number and handler = @handler;
update {outcome} set state = 3, finished_at = {now}, reason = @reason
where number = @number and handler = @handler and state in (0, 2)
returning number;

-- An expired lease ends here as elsewhere: it counts as a crash of its worker.
-- name: postpone
update {work}
set visible_at = @until, owner = null, lease_until = null, expiries = min(expiries + (lease_until is not null), 2147483647)
where number = @number and handler = @handler and waiting = 0 and (lease_until is null or lease_until <= {now})
returning number;

-- define: editable
m.number = @number and m.payload is not null
  and (@content_version is null or m.content_version = @content_version)
  and not exists (select 1 from {work} d where d.number = m.number and d.lease_until > {now})
  and (exists (select 1 from {work} d where d.number = m.number)
       or exists (select 1 from {outcome} d where d.number = m.number and d.state = 2))

-- name: edit
update {audit} as a
set number = m.number, content_version = m.content_version, headers = m.headers, payload = m.payload
from {message} m where a.id = @operation and {editable};
update {message} as m
set payload = coalesce(@payload, payload), headers = coalesce(@headers, headers),
    content_type = coalesce(@content_type, content_type), content_version = min(content_version, 2147483646) + 1,
    hash = null, hash_algorithm = null
where {editable}
returning number;

-- name: content_version
select content_version from {message} where number = @number;

-- define: operation_columns
id, action, content_hash, started_at, affected, finished, position_number, position_handler

-- name: operation_begin
insert into {audit} (done_at, started_at, affected, action, actor, reason, operation_id, content_hash, finished)
values ({now}, {now}, 0, @action, @actor, @reason, @operation_id, @content_hash, 0)
on conflict (operation_id) where operation_id is not null do nothing
returning {operation_columns};

-- One writer at a time: nothing to lock.
-- name: operation_lock
select {operation_columns} from {audit}
where id = coalesce(@id, (select a.id from {audit} a where a.operation_id = @operation_id));

-- name: operation_move
update {audit}
set affected = affected + @affected, done_at = {now}, finished = @finished,
    position_number = @position_number, position_handler = @position_handler
where id = @id;

-- name: operation_forget
delete from {audit} where id = @id;

-- define: audit_columns
id, action, actor, reason, operation_id, number, affected, coalesce(started_at, done_at), done_at, finished

-- name: audit_find
select {audit_columns} from {audit} where operation_id = @operation_id;

-- name: audit_list
select {audit_columns} from {audit} where id < @before order by id desc limit @limit;

-- Deliveries of mark_processing: the caller's own, which end when the caller says so, however old they are. A mark of
-- the gate has a reason (the type), one of a dispatcher the id of its delivery.
-- define: processing
(d.state = 4 and d.delivery_id is null and d.reason is null)

-- A delivery that holds its key waits for an operator, however old it is.
-- define: prunable
not exists (select 1 from {work} d where d.number = m.number)
  and (m.partition_key is null or not exists (select 1 from {hold} h where h.number = m.number))
  and (exists (select 1 from {outcome} d where d.number = m.number)
       or (@seen and m.last_seen_at <= {now} - @retention))
  and not exists (
    select 1 from {outcome} d
    where d.number = m.number
      and (d.finished_at > {now} - @retention or (d.state = 2 and not @dead) or {processing}))

-- A page of old messages whose every delivery is done, discarded or marked, in the order in which they ended. The last
-- outcome of a message stands for it. The condition on state is that of the index outcome_finished.
-- name: prune_pick
select m.number, m.source, m.id, o.finished_at
from {outcome} o cross join {message} m on m.number = o.number
where (o.state in (1, 3) or (o.state = 4 and (o.delivery_id is not null or o.reason is not null)))
  and o.finished_at <= {now} - @retention
  and (o.finished_at, o.number) > (coalesce(@after_at, -9223372036854775807), @after)
  and {prunable}
  and not exists (
    select 1 from {outcome} n where n.number = o.number and (n.finished_at, n.handler) > (o.finished_at, o.handler))
order by o.finished_at, o.number limit @limit;

-- Dead and seen messages are in no index by age, so prune_pick_all walks over all messages by number. Numbers follow the
-- time, so it ends at the first message that is too young. One from the future (a clock that was wrong) is no end.
-- name: prune_bound
select number from {message}
where created_at > {now} - @retention and created_at <= {now}
order by number limit 1;

-- name: prune_pick_all
select m.number, m.source, m.id from {message} m
where m.number > @after and m.number < @below and {prunable}
order by m.number limit @limit;

-- name: prune
delete from {message} as m where m.number = @number and {prunable} returning number;
-- each
delete from {outcome} where number = @number;
-- each
delete from {failure} where number = @number;

-- define: message_columns
m.number, m.source, m.id, m.topic, m.correlation_id, m.partition_key, m.content_type, m.created_at,
  m.last_seen_at, m.due_at, m.expires_at, m.seen_count, m.content_version, length(m.payload) as size

-- define: delivery_state
case when d.waiting = 1 then 3 when d.lease_until > {now} then 2 when d.visible_at > {now} then 1 else 0 end

-- define: delivery_columns
d.handler, d.id as delivery_id,
  {delivery_state} as state,
  d.attempts, d.expiries, d.requeues, d.visible_at, d.lease_until, d.owner, null as finished_at,
  null as reason, d.last_error

-- define: outcome_columns
d.handler, d.delivery_id, d.state + 3 as state, d.attempts, d.expiries, d.requeues, null as visible_at,
  null as lease_until, d.finished_by as owner, d.finished_at, d.reason, d.last_error

-- define: matches
(@topic is null or m.topic = @topic)
  and (@source is null or m.source = @source)
  and (@message_id is null or m.id = @message_id)
  and (@correlation_id is null or m.correlation_id = @correlation_id)
  and (@since is null or m.created_at >= @since)
  and (@until is null or m.created_at < @until)

-- define: delivery_matches
(@handler is null or d.handler = @handler)
  and (@error is null or instr(d.last_error, @error) > 0)

-- Newest first; the page begins below (@before, @before_handler). @state: one of {delivery_state}, or null.
-- name: list_open
select {message_columns}, {delivery_columns}
from {work} d join {message} m on m.number = d.number
where (d.number, d.handler) < (@before, @before_handler) and {matches} and {delivery_matches}
  and (@state is null or @state = {delivery_state})
order by d.number desc, d.handler desc limit @limit;

-- name: list_dead
select {message_columns}, {outcome_columns}
from {outcome} d join {message} m on m.number = d.number
where d.state = 2 and (d.number, d.handler) < (@before, @before_handler)
  and {matches} and {delivery_matches}
order by d.number desc, d.handler desc limit @limit;

-- @state: 1 done, 3 discarded, 4 marked.
-- name: list_finished
select {message_columns}, {outcome_columns}
from {outcome} d join {message} m on m.number = d.number
where d.state = @state and (d.number, d.handler) < (@before, @before_handler)
  and {matches} and {delivery_matches}
order by d.number desc, d.handler desc limit @limit;

-- Messages in any state; their deliveries are read one message at a time.
-- name: list_all
select {message_columns}
from {message} m
where m.number < @before and {matches}
  and (@handler is null
       or exists (select 1 from {work} d where d.number = m.number and d.handler = @handler)
       or exists (select 1 from {outcome} d where d.number = m.number and d.handler = @handler))
  and (@error is null
       or exists (select 1 from {work} d where d.number = m.number and instr(d.last_error, @error) > 0)
       or exists (select 1 from {outcome} d where d.number = m.number and instr(d.last_error, @error) > 0))
  and (not @seen
       or (not exists (select 1 from {work} d where d.number = m.number)
           and not exists (select 1 from {outcome} d where d.number = m.number)))
order by m.number desc limit @limit;

-- name: get
select {message_columns}, m.payload, m.headers, m.hash, m.hash_algorithm
from {message} m where m.id = @id and m.source = @source;

-- The sources that know an id: calls without a source succeed only if there is one.
-- name: find_sources
select m.source from {message} m where m.id = @id order by m.source limit @limit;

-- name: deliveries
select {delivery_columns} from {work} d where d.number = @number
union all
select {outcome_columns} from {outcome} d where d.number = @number
order by 1;

-- name: failures
select failed_at, handler, attempt, worker, error
from (select * from {failure} where number = @number order by id desc limit @limit) order by id;

-- Counts by topic, handler and holder of the lease.
-- define: open_groups
select coalesce(m.topic, '') as topic, d.handler as handler, case when d.lease_until > {now} then d.owner end as holder,
       count(*) filter (where not d.waiting and d.visible_at <= {now}
                          and (d.lease_until is null or d.lease_until <= {now})) as ready,
       count(*) filter (where not d.waiting and d.visible_at > {now}
                          and (d.lease_until is null or d.lease_until <= {now})) as scheduled,
       count(*) filter (where d.lease_until > {now}) as leased,
       count(*) filter (where d.waiting) as waiting,
       0 as dead, 0 as done, 0 as discarded, 0 as marked, 0 as seen,
       min(d.visible_at) filter (where not d.waiting and d.visible_at <= {now}) as pending_since,
       min(m.created_at) as open_since
from {work} d join {message} m on m.number = d.number
group by 1, 2, 3

-- define: dead_groups
select coalesce(m.topic, ''), d.handler, null, 0, 0, 0, 0, count(*), 0, 0, 0, 0, null, null
from {outcome} d join {message} m on m.number = d.number
where d.state = 2 group by 1, 2

-- define: history_groups
select coalesce(m.topic, ''), coalesce(d.handler, ''), null, 0, 0, 0, 0, 0,
       count(*) filter (where d.state = 1), count(*) filter (where d.state = 3), count(*) filter (where d.state = 4),
       count(*) filter (where d.state is null), null, null
from {message} m left join {outcome} d on d.number = m.number
where coalesce(d.state, 0) <> 2 and (d.state is not null
  or not exists (select 1 from {work} w where w.number = m.number))
group by 1, 2

-- define: sums
sum(ready) as ready, sum(scheduled) as scheduled, sum(leased) as leased, sum(waiting) as waiting, sum(dead) as dead,
  sum(done) as done, sum(discarded) as discarded, sum(marked) as marked, sum(seen) as seen,
  min(pending_since) as pending_since, min(open_since) as open_since

-- The @names topics (kind 0), handlers (1) and holders (2) with the most; one row of each kind sums up all others.
-- define: top_names
by_name as (
  select 0 as kind, topic as name, null as holder, {sums} from counted group by topic
  union all
  select 1, handler, null, {sums} from counted group by handler
  union all
  select 2, '', holder, {sums} from counted where holder is not null group by holder
), placed as (
  select *, row_number() over (
    partition by kind
    order by ready + scheduled + leased + waiting + dead + done + discarded + marked + seen desc, name, holder) as place
  from by_name
)
select kind, case when place <= @names then name end, case when place <= @names then holder end,
       count(*), {sums}, ({now} - min(pending_since)) / 1000000.0, ({now} - min(open_since)) / 1000000.0
from placed group by 1, 2, 3

-- name: count
with counted as materialized ({open_groups} union all {dead_groups}), {top_names};

-- Reads the whole history.
-- name: count_history
with counted as materialized ({open_groups} union all {dead_groups} union all {history_groups}), {top_names};

-- One row for each dead letter: sorting them by their errors would cost more than reading them. The beginning of the
-- error decides the group (normalise_error), so no more of it is read.
-- name: group_dead
select m.topic, d.handler, substr(d.last_error, 1, 500), d.finished_at
from {outcome} d join {message} m on m.number = d.number
where d.state = 2;

-- The dead letters between @first and @last that hold their partition keys, and how many wait behind each, up to a
-- bound. A requeued one holds its key until it is done.
-- name: held_keys
select h.number, h.handler, h.partition_key, h.requeued, m.source, m.id, (
  select count(*) from (
    select 1 from {work} w where w.partition_key = h.partition_key and w.handler = h.handler and w.waiting = 1
    limit @most)) as waiting
from {hold} h join {message} m on m.number = h.number
where h.number between @first and @last
order by h.number, h.handler limit @limit;

-- Partition keys whose first delivery is due more than @far ahead, and how many wait behind it, up to a bound.
-- define: blocked
select * from (
  select d.number as number, d.handler as handler, d.partition_key, d.visible_at as visible_at, m.source, m.id, (
    select count(*) from (
      select 1 from {work} w where w.partition_key = d.partition_key and w.handler = d.handler and w.waiting = 1
      limit @most)) as waiting
  from {work} d join {message} m on m.number = d.number
  where d.waiting = 0 and d.visible_at > {now} + @far and d.partition_key is not null)
where waiting > 0

-- name: blocked_keys
{blocked} order by visible_at desc limit @limit;

-- name: blocked_by
{blocked} and number = @number order by handler;

-- The keys of open deliveries, from both ends of the backlog: a start-up must not read all of it.
-- name: open_keys
select handler from (select handler from {work} order by number, handler limit @limit) oldest
union
select handler from (select handler from {work} order by number desc, handler desc limit @limit) newest;

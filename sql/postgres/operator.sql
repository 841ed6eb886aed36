-- Operations: inspect, requeue, discard, edit, prune. Deliveries are named by (number, handler), which stays the same
-- while a delivery moves between work and outcome.

-- define: named
number = any(@number::bigint[]) and coalesce((number, handler) in (
    select k.number, k.handler from unnest(@number::bigint[], @handler::text[]) k(number, handler)), false)

-- The keys are locked in a step of their own: the next step reads under the lock, and a transaction that holds a key
-- may need the rows that it takes.
-- define: lock_keys
select 1 from (
  select pg_advisory_xact_lock(lock) as held from (
    select distinct hashtextextended(m.partition_key, {work_text}::regclass::oid::bigint) as lock
    from {message} m
    where m.number = any(@number::bigint[]) and m.partition_key is not null
    order by 1) keys
) locks where held::text is null;

-- A decision by a message's deliveries, or its deletion, locks its row; in the order in which accept locks.
-- define: lock_rows
select 1 from (
  select number from {message} where number = any(@number::bigint[])
  order by id collate "C", source collate "C" for update) locked
having count(*) < 0;

-- name: lock_messages
{lock_rows}

-- A delivery that holds its key precedes all that wait behind it; any other goes to the end of its key.
-- name: requeue
{lock_keys}

{lock_rows}

with back as (
  delete from {outcome} o where {named} and o.state = 2
    and exists (select 1 from {message} m where m.number = o.number and m.payload is not null)
  returning o.number, o.handler, o.requeues
), again as materialized (
  select b.*, m.partition_key, case when m.expires_at > {now} then m.expires_at end as expires_at,
         (select h.number from {hold} h where h.partition_key = m.partition_key and h.handler = b.handler) as holder
  from back b cross join lateral (
    select partition_key, expires_at from {message} where number = b.number offset 0) m
), sent as (
  update {hold} h set requeued = true from again a where h.number = a.number and h.handler = a.handler
)
insert into {work} (number, handler, visible_at, requeues, expires_at, partition_key, waiting)
select a.number, a.handler, {now} + @delay::bigint * interval '1 microsecond', least(a.requeues, 2147483646) + 1, a.expires_at,
       a.partition_key,
       case
         when a.partition_key is null then false
         when a.holder is not null then a.holder <> a.number
         else row_number() over (partition by a.partition_key, a.handler order by a.number) > 1
              or exists (select 1 from {work} w where w.partition_key = a.partition_key and w.handler = a.handler)
       end
from again a
where (select case when count(*) > 0 then {wake} else 0 end from again) = 0
order by a.number
returning id;

-- name: discard
{lock_keys}

{lock_rows}

with gone as (
  delete from {work} w where {named}
  returning w.*
), moved as (
  insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                         last_error)
  select number, id, {now}, attempts, expiries, requeues, 3, handler, @reason::text, last_error from gone
  returning number
), dropped as (
  update {outcome} o set state = 3, finished_at = {now}, reason = @reason::text
  where {named} and o.state = 2
  returning o.number
)
select number from moved union all select number from dropped;

-- An expired lease ends here as elsewhere: it counts as a crash of its worker.
-- name: postpone
with moved as (
  update {work} w
  set visible_at = @until::timestamptz, owner = null, lease_until = null,
      expiries = case when w.lease_until is null then w.expiries else least(w.expiries, 2147483646) + 1 end
  where {named} and not w.waiting and (w.lease_until is null or w.lease_until <= {now})
  returning w.number
)
select number from moved
where (select case when count(*) > 0 then {wake} else 0 end from moved) = 0;

-- The key, the message, its deliveries: in the common lock order. The deliveries are updated, not only locked: a
-- claim that began before has the old content, and skips rows that have changed since.
-- name: edit
select 1 from (
  select pg_advisory_xact_lock(hashtextextended(m.partition_key, {work_text}::regclass::oid::bigint)) as held
  from {message} m where m.number = @number::bigint and m.partition_key is not null
) locks where held::text is null;

select 1 from (
  select number from {message} where number = @number::bigint for update) locked
having count(*) < 0;

with delivery as (
  update {work} set epoch = epoch where number = @number::bigint returning lease_until
), old as materialized (
  select m.* from {message} m
  where m.number = @number::bigint and m.payload is not null
    and (@content_version::int is null or m.content_version = @content_version::int)
    and not exists (select 1 from delivery where lease_until > {now})
    and (exists (select 1 from delivery)
         or exists (select 1 from {outcome} o where o.number = m.number and o.state = 2))
), kept as (
  update {audit} a
  set number = old.number, content_version = old.content_version, headers = old.headers, payload = old.payload
  from old where a.id = @operation::bigint
)
update {message} m
set payload = coalesce(@payload::bytea, m.payload), headers = coalesce(@headers::text, m.headers),
    content_type = coalesce(@content_type::text, m.content_type),
    content_version = least(m.content_version, 2147483646) + 1, hash = null, hash_algorithm = null
from old where m.number = old.number
returning m.number;

-- name: content_version
select content_version from {message} where number = @number::bigint;

-- define: operation_columns
id, action, content_hash, started_at, affected, finished, position_number, position_handler

-- name: operation_begin
insert into {audit} (done_at, started_at, affected, action, actor, reason, operation_id, content_hash, finished)
values ({now}, {now}, 0, @action::text, @actor::text, @reason::text, @operation_id::text, @content_hash::bytea, false)
on conflict (operation_id) where operation_id is not null do nothing
returning {operation_columns};

-- Continuing an operation locks its row: two callers take turns.
-- name: operation_lock
select {operation_columns} from {audit}
where id = coalesce(@id::bigint, (select a.id from {audit} a where a.operation_id = @operation_id::text))
for update;

-- name: operation_move
update {audit}
set affected = affected + @affected::bigint, done_at = {now}, finished = @finished::boolean,
    position_number = @position_number::bigint, position_handler = @position_handler::text
where id = @id::bigint;

-- name: operation_forget
delete from {audit} where id = @id::bigint;

-- define: audit_columns
id, action, actor, reason, operation_id, number, affected, coalesce(started_at, done_at), done_at, finished

-- name: audit_find
select {audit_columns} from {audit} where operation_id = @operation_id::text;

-- name: audit_list
select {audit_columns} from {audit} where id < @before::bigint order by id desc limit @limit::bigint;

-- Deliveries of mark_processing: the caller's own, which end when the caller says so, however old they are. A mark of
-- the gate has a reason (the type), one of a dispatcher the id of its delivery.
-- define: processing
(d.state = 4 and d.delivery_id is null and d.reason is null)

-- What holds its key waits for a person, however old it is. With an offset the subqueries stay lookups by index: joins
-- would depend on statistics.
-- define: prunable
not exists (select 1 from {work} d where d.number = m.number offset 0)
  and (m.partition_key is null or not exists (select 1 from {hold} h where h.number = m.number offset 0))
  and (exists (select 1 from {outcome} d where d.number = m.number offset 0)
       or (@seen::boolean and m.last_seen_at <= {now} - @retention::bigint * interval '1 microsecond'))
  and not exists (
    select 1 from {outcome} d
    where d.number = m.number
      and (d.finished_at > {now} - @retention::bigint * interval '1 microsecond'
           or (d.state = 2 and not @dead::boolean) or {processing})
    offset 0)

-- A page of old messages whose every delivery is done, discarded or marked, in the order in which they ended. The last
-- outcome of a message stands for it. The condition on state is that of the index outcome_finished.
-- name: prune_pick
select m.number, m.source, m.id, d.finished_at
from (
  select d.number, d.handler, d.finished_at from {outcome} d
  where (d.state in (1, 3) or (d.state = 4 and (d.delivery_id is not null or d.reason is not null)))
    and d.finished_at <= {now} - @retention::bigint * interval '1 microsecond'
    and (d.finished_at, d.number) > (coalesce(@after_at::timestamptz, '-infinity'), @after::bigint)
  order by d.finished_at, d.number offset 0) d
cross join lateral (
  select m.number, m.source, m.id from {message} m
  where m.number = d.number and {prunable}
    and not exists (
      select 1 from {outcome} n
      where n.number = d.number and (n.finished_at, n.handler) > (d.finished_at, d.handler)
      offset 0)
  for update skip locked) m
order by d.finished_at, d.number limit @limit::bigint;

-- Dead and seen messages are in no index by age, so prune_pick_all walks over all messages by number. Numbers follow the
-- time, so it ends at the first message that is too young. One from the future (a clock that was wrong) is no end.
-- name: prune_bound
select number from {message}
where created_at > {now} - @retention::bigint * interval '1 microsecond' and created_at <= {now}
order by number limit 1;

-- name: prune_pick_all
select m.number, m.source, m.id from {message} m
where m.number > @after::bigint and m.number < @below::bigint and {prunable}
order by m.number limit @limit::bigint
for update of m skip locked;

-- The candidates are locked; an earlier accept has added its deliveries, and this snapshot sees them. A mark ends, or
-- is released, without a lock on its message, so it is locked here; a message whose mark another transaction holds,
-- or has changed since, is left for the next time.
-- name: prune
with marked as materialized (
  select number, handler from {outcome} where number = any(@number::bigint[]) and state = 4 for update skip locked
), old as materialized (
  select m.number from {message} m
  where m.number = any(@number::bigint[]) and {prunable}
    and not exists (
      select 1 from {outcome} d
      where d.number = m.number and d.state = 4
        and coalesce((d.number, d.handler) not in (select number, handler from marked), true))
), o as (
  delete from {outcome} where number = any(array(select number from old))
), f as (
  delete from {failure} where number = any(array(select number from old))
)
delete from {message} where number = any(array(select number from old)) returning number;

-- define: message_columns
m.number, m.source, m.id, m.topic, m.correlation_id, m.partition_key, m.content_type, m.created_at,
  m.last_seen_at, m.due_at, m.expires_at, m.seen_count, m.content_version, octet_length(m.payload) as size

-- define: delivery_state
case when d.waiting then 3 when d.lease_until > {now} then 2 when d.visible_at > {now} then 1 else 0 end

-- define: delivery_columns
d.handler, d.id as delivery_id,
  {delivery_state} as state,
  d.attempts, d.expiries, d.requeues, d.visible_at, d.lease_until, d.owner, null::timestamptz as finished_at,
  null::text as reason, d.last_error

-- define: outcome_columns
d.handler, d.delivery_id, d.state + 3 as state, d.attempts, d.expiries, d.requeues, null::timestamptz as visible_at,
  null::timestamptz as lease_until, d.finished_by as owner, d.finished_at, d.reason, d.last_error

-- define: matches
(@topic::text is null or m.topic = @topic::text)
  and (@source::text is null or m.source = @source::text)
  and (@message_id::text is null or m.id = @message_id::text)
  and (@correlation_id::text is null or m.correlation_id = @correlation_id::text)
  and (@since::timestamptz is null or m.created_at >= @since::timestamptz)
  and (@until::timestamptz is null or m.created_at < @until::timestamptz)

-- define: delivery_matches
(@handler::text is null or d.handler = @handler::text)
  and (@error::text is null or position(@error::text in d.last_error) > 0)

-- Newest first; the page begins below (@before, @before_handler). @state: one of {delivery_state}, or null.
-- name: list_open
select {message_columns}, {delivery_columns}
from {work} d cross join lateral (select * from {message} where number = d.number offset 0) m
where (d.number, d.handler) < (@before::bigint, @before_handler::text) and {matches} and {delivery_matches}
  and (@state::int is null or @state::int = {delivery_state})
order by d.number desc, d.handler desc limit @limit::bigint;

-- name: list_dead
select {message_columns}, {outcome_columns}
from {outcome} d cross join lateral (select * from {message} where number = d.number offset 0) m
where d.state = 2 and (d.number, d.handler) < (@before::bigint, @before_handler::text)
  and {matches} and {delivery_matches}
order by d.number desc, d.handler desc limit @limit::bigint;

-- @state: 1 done, 3 discarded, 4 marked.
-- name: list_finished
select {message_columns}, {outcome_columns}
from {outcome} d cross join lateral (select * from {message} where number = d.number offset 0) m
where d.state = @state::int and (d.number, d.handler) < (@before::bigint, @before_handler::text)
  and {matches} and {delivery_matches}
order by d.number desc, d.handler desc limit @limit::bigint;

-- Messages in any state; their deliveries are read one message at a time.
-- name: list_all
select {message_columns}
from {message} m
where m.number < @before::bigint and {matches}
  and (@handler::text is null
       or exists (select 1 from {work} d where d.number = m.number and d.handler = @handler::text)
       or exists (select 1 from {outcome} d where d.number = m.number and d.handler = @handler::text))
  and (@error::text is null
       or exists (select 1 from {work} d where d.number = m.number and position(@error::text in d.last_error) > 0)
       or exists (select 1 from {outcome} d where d.number = m.number and position(@error::text in d.last_error) > 0))
  and (not @seen::boolean
       or (not exists (select 1 from {work} d where d.number = m.number)
           and not exists (select 1 from {outcome} d where d.number = m.number)))
order by m.number desc limit @limit::bigint;

-- name: get
select {message_columns}, m.payload, m.headers, m.hash, m.hash_algorithm
from {message} m where m.id = @id::text and m.source = @source::text;

-- The sources that know an id: calls without a source succeed only if there is one.
-- name: find_sources
select m.source from {message} m where m.id = @id::text order by m.source limit @limit::bigint;

-- name: deliveries
select {delivery_columns} from {work} d where d.number = @number::bigint
union all
select {outcome_columns} from {outcome} d where d.number = @number::bigint
order by 1;

-- name: failures
select failed_at, handler, attempt, worker, error
from (select * from {failure} where number = @number::bigint order by id desc limit @limit::bigint) latest order by id;

-- Counts by topic, handler and holder of the lease.
-- define: open_groups
select coalesce(m.topic, '') as topic, d.handler, case when d.lease_until > {now} then d.owner end as holder,
       count(*) filter (where not d.waiting and d.visible_at <= {now}
                          and (d.lease_until is null or d.lease_until <= {now})) as ready,
       count(*) filter (where not d.waiting and d.visible_at > {now}
                          and (d.lease_until is null or d.lease_until <= {now})) as scheduled,
       count(*) filter (where d.lease_until > {now}) as leased,
       count(*) filter (where d.waiting) as waiting,
       0::bigint as dead, 0::bigint as done, 0::bigint as discarded, 0::bigint as marked, 0::bigint as seen,
       min(d.visible_at) filter (where not d.waiting and d.visible_at <= {now}) as pending_since,
       min(m.created_at) as open_since
from {work} d cross join lateral (select topic, created_at from {message} where number = d.number offset 0) m
group by 1, 2, 3

-- define: dead_groups
select coalesce(m.topic, ''), d.handler, null::uuid, 0::bigint, 0::bigint, 0::bigint, 0::bigint, count(*),
       0::bigint, 0::bigint, 0::bigint, 0::bigint, null::timestamptz, null::timestamptz
from {outcome} d cross join lateral (select topic from {message} where number = d.number offset 0) m
where d.state = 2 group by 1, 2

-- define: history_groups
select coalesce(m.topic, ''), coalesce(d.handler, ''), null::uuid, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
       count(*) filter (where d.state = 1), count(*) filter (where d.state = 3), count(*) filter (where d.state = 4),
       count(*) filter (where d.state is null), null::timestamptz, null::timestamptz
from {message} m left join {outcome} d on d.number = m.number
where coalesce(d.state, 0) <> 2 and (d.state is not null
  or not exists (select 1 from {work} w where w.number = m.number))
group by 1, 2

-- define: sums
sum(ready)::bigint as ready, sum(scheduled)::bigint as scheduled, sum(leased)::bigint as leased,
  sum(waiting)::bigint as waiting, sum(dead)::bigint as dead, sum(done)::bigint as done,
  sum(discarded)::bigint as discarded, sum(marked)::bigint as marked, sum(seen)::bigint as seen,
  min(pending_since) as pending_since, min(open_since) as open_since

-- The @names topics (kind 0), handlers (1) and holders (2) with the most; one row of each kind sums up all others.
-- define: top_names
by_name as (
  select 0 as kind, topic as name, null::uuid as holder, {sums} from counted group by topic
  union all
  select 1, handler, null::uuid, {sums} from counted group by handler
  union all
  select 2, '', holder, {sums} from counted where holder is not null group by holder
), placed as (
  select *, row_number() over (
    partition by kind
    order by ready + scheduled + leased + waiting + dead + done + discarded + marked + seen desc, name, holder) as place
  from by_name
)
select kind, case when place <= @names::bigint then name end, case when place <= @names::bigint then holder end,
       count(*), {sums}, extract(epoch from {now} - min(pending_since))::float8,
       extract(epoch from {now} - min(open_since))::float8
from placed group by 1, 2, 3

-- name: count
with counted as materialized ({open_groups} union all {dead_groups}), {top_names};

-- Reads the whole history.
-- name: count_history
with counted as materialized ({open_groups} union all {dead_groups} union all {history_groups}), {top_names};

-- One row for each dead letter: sorting them by their errors would cost more than reading them. The beginning of the
-- error decides the group (normalise_error), so no more of it is read.
-- name: group_dead
select m.topic, d.handler, left(d.last_error, 500), d.finished_at
from {outcome} d cross join lateral (select topic from {message} where number = d.number offset 0) m
where d.state = 2;

-- The dead letters between @first and @last that hold their partition keys, and how many wait behind each, up to a
-- bound. A requeued one holds its key until it is done.
-- name: held_keys
select h.number, h.handler, h.partition_key, h.requeued, m.source, m.id, (
  select count(*) from (
    select 1 from {work} w where w.partition_key = h.partition_key and w.handler = h.handler and w.waiting
    order by w.partition_key, w.handler, w.id limit @most::bigint) behind) as waiting
from {hold} h cross join lateral (select source, id from {message} where number = h.number offset 0) m
where h.number between @first::bigint and @last::bigint
order by h.number, h.handler limit @limit::bigint;

-- Partition keys whose first delivery is due more than @far ahead, and how many wait behind it, up to a bound.
-- define: blocked
select d.number, d.handler, d.partition_key, d.visible_at, m.source, m.id, behind.waiting
from {work} d
cross join lateral (
  select count(*) as waiting from (
    select 1 from {work} w where w.partition_key = d.partition_key and w.handler = d.handler and w.waiting
    order by w.partition_key, w.handler, w.id limit @most::bigint) few) behind
cross join lateral (select source, id from {message} where number = d.number offset 0) m
where not d.waiting and d.visible_at > {now} + @far::bigint * interval '1 microsecond'
  and d.partition_key is not null and behind.waiting > 0

-- name: blocked_keys
{blocked} order by d.visible_at desc limit @limit::bigint;

-- name: blocked_by
{blocked} and d.number = @number::bigint order by d.handler;

-- The keys of open deliveries, from both ends of the backlog: a start-up must not read all of it.
-- name: open_keys
select handler from (select handler from {work} order by number, handler limit @limit::bigint) oldest
union
select handler from (select handler from {work} order by number desc, handler desc limit @limit::bigint) newest;

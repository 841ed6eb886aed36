-- Operations: inspect, requeue, discard, edit, prune. Deliveries are named by (number, handler), which stays the same
-- while a delivery moves between work and outcome.

-- define: numbers
openjson(@rows) with (number bigint '$.number') as k

-- define: named
exists (select 1 from @named k where k.message = number and k.delivery = handler)

-- define: names
declare @named table (message bigint, delivery nvarchar(200) {binary}, primary key (message, delivery));
insert into @named (message, delivery)
select j.number, {plain:handler} from openjson(@rows) with (number bigint '$.number', handler nvarchar(400) '$.handler') as j;

-- The keys are locked in a step of their own: the next step reads under the lock, and a transaction that holds a key
-- may need the rows that it takes. Then the messages: an update without a change locks their rows.
-- define: lock
{names}
{keys}
insert into @keys (partition_key)
select distinct m.partition_key from {message} m
where m.number in (select k.message from @named k) and m.partition_key is not null;
{lock_keys}
update {message} set seen_count = seen_count where number in (select k.message from @named k);

-- A decision by a message's deliveries, or its deletion, locks its row.
-- name: lock_messages
update {message} set seen_count = seen_count where number in (select k.number from {numbers});

-- A delivery that holds its key precedes all that wait behind it; any other goes to the end of its key.
-- name: requeue
{lock}
declare @back table (number bigint, handler nvarchar(200) {binary}, requeues int);
delete from {outcome}
output deleted.number, deleted.handler, deleted.requeues into @back (number, handler, requeues)
where {named} and state = 2
  and number in (select m.number from @named k join {message} m on m.number = k.message where m.payload is not null);
insert into {work} (number, handler, visible_at, requeues, expires_at, partition_key, waiting)
select b.number, b.handler,
       dateadd(microsecond, cast(@delay % 1000000 as int), dateadd(second, cast(@delay / 1000000 as int), {now})),
       case when b.requeues < 2147483647 then b.requeues + 1 else b.requeues end,
       case when m.expires_at > {now} then m.expires_at end, m.partition_key,
       case when m.partition_key is null or h.number = b.number then 0
            when h.number is not null
                 or row_number() over (partition by m.partition_key, b.handler order by b.number) > 1
                 or exists (select 1 from {work} w
                            where w.partition_key = m.partition_key and w.handler = b.handler)
            then 1 else 0 end
from @back b
join {message} m on m.number = b.number
left join {hold} h on h.partition_key = m.partition_key and h.handler = b.handler
order by b.number;
update h set requeued = 1 from {hold} h join @back b on b.number = h.number and b.handler = h.handler;
select number from @back;

-- name: discard
{lock}
declare @gone table (
  number bigint, id bigint, attempts int, expiries int, requeues int, handler nvarchar(200) {binary},
  last_error nvarchar(max));
declare @dropped table (number bigint);
delete from {work}
output deleted.number, deleted.id, deleted.attempts, deleted.expiries, deleted.requeues, deleted.handler,
  deleted.last_error into @gone (number, id, attempts, expiries, requeues, handler, last_error)
where {named};
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
select number, id, {now}, attempts, expiries, requeues, 3, handler, @reason, last_error from @gone;
update {outcome} set state = 3, finished_at = {now}, reason = @reason
output inserted.number into @dropped (number)
where {named} and state = 2;
select number from @gone union all select number from @dropped;

-- An expired lease ends here as elsewhere: it counts as a crash of its worker.
-- name: postpone
{names}
update {work}
set visible_at = @until, owner = null, lease_until = null,
    expiries = case when lease_until is not null and expiries < 2147483647 then expiries + 1 else expiries end
output inserted.number as number
where {named} and waiting = 0 and (lease_until is null or lease_until <= {now});

-- define: editable
number = @number and payload is not null
  and (@content_version is null or content_version = @content_version)
  and not exists (select 1 from {work} d where d.number = @number and d.lease_until > {now})
  and (exists (select 1 from {work} d where d.number = @number)
       or exists (select 1 from {outcome} d where d.number = @number and d.state = 2))

-- A message that is being edited cannot be leased: an update without a change locks the rows of its deliveries.
-- name: edit
update {work} set epoch = epoch where number = @number;
update {message} set seen_count = seen_count where number = @number;
update a
set number = m.number, content_version = m.content_version, headers = m.headers, payload = m.payload
from {audit} a
join (select number, content_version, headers, payload from {message} where {editable}) m on a.id = @operation;
update {message}
set payload = coalesce(cast(@payload as varbinary(max)), payload), headers = coalesce(@headers, headers),
    content_type = coalesce(@content_type, content_type),
    content_version = case when content_version < 2147483647 then content_version + 1 else content_version end,
    hash = null, hash_algorithm = null
output inserted.number as number
where {editable};

-- name: content_version
select content_version from {message} where number = @number;

-- define: operation_columns
id, action, content_hash, started_at, affected, finished, position_number, position_handler

-- name: operation_begin
declare @begun table (id bigint);
{once}
delete from @begun;
insert into {audit} (done_at, started_at, affected, action, actor, reason, operation_id, content_hash, finished)
output inserted.id into @begun (id)
select {now}, {now}, 0, @action, @actor, @reason, @operation_id, cast(@content_hash as varbinary(32)), 0
where @operation_id is null or not exists (select 1 from {audit} a where a.operation_id = @operation_id);
{end_retry}
select {operation_columns} from {audit} where id in (select b.id from @begun b);

-- Continuing an operation locks its row: two callers take turns.
-- name: operation_lock
update {audit} set affected = affected
where id = @id or (@id is null and operation_id = @operation_id);
select {operation_columns} from {audit}
where id = @id or (@id is null and operation_id = @operation_id);

-- name: operation_move
update {audit}
set affected = affected + @affected, done_at = {now}, finished = @finished,
    position_number = @position_number, position_handler = @position_handler
where id = @id;

-- name: operation_forget
delete from {audit} where id = @id;

-- define: audit_columns
id, action, actor, reason, operation_id, number, affected, coalesce(started_at, done_at) as started_at, done_at, finished

-- name: audit_find
select {audit_columns} from {audit} where operation_id = @operation_id;

-- name: audit_list
select top (@limit) {audit_columns} from {audit} where id < @before order by id desc;

-- Older than the calendar of DATEADD is older than everything.
-- define: old_before
case when @retention / 86400000000 >= 365 * 1000 then cast('0001-01-01' as datetime2(6))
     else dateadd(microsecond, -cast(@retention % 1000000 as int),
                  dateadd(second, -cast(@retention / 1000000 % 86400 as int),
                          dateadd(day, -cast(@retention / 86400000000 as int), {now}))) end

-- Deliveries of mark_processing: the caller's own, which end when the caller says so, however old they are. A mark of
-- the gate has a reason (the type), one of a dispatcher the id of its delivery.
-- define: processing
(d.state = 4 and d.delivery_id is null and d.reason is null)

-- A delivery that holds its key waits for an operator, however old it is.
-- define: prunable
not exists (select 1 from {work} d where d.number = m.number)
  and (m.partition_key is null or not exists (select 1 from {hold} h where h.number = m.number))
  and (exists (select 1 from {outcome} d where d.number = m.number) or (@seen = 1 and m.last_seen_at <= {old_before}))
  and not exists (
    select 1 from {outcome} d
    where d.number = m.number and (d.finished_at > {old_before} or (d.state = 2 and @dead = 0) or {processing}))

-- A page of old messages whose every delivery is done, discarded or marked, in the order in which they ended. The last
-- outcome of a message stands for it. The condition on state is that of the index outcome_finished; a filtered index
-- takes no "or", so it holds the marks of mark_processing, too.
-- name: prune_pick
select top (@limit) m.number, m.source, m.id, o.finished_at
from {outcome} o with (readpast) join {message} m with (updlock, readpast, rowlock) on m.number = o.number
where o.state in (1, 3, 4) and o.finished_at <= {old_before}
  and o.finished_at >= coalesce(@after_at, '0001-01-01')
  and (o.finished_at > coalesce(@after_at, '0001-01-01') or o.number > @after)
  and {prunable}
  and not exists (
    select 1 from {outcome} n
    where n.number = o.number
      and (n.finished_at > o.finished_at or (n.finished_at = o.finished_at and n.handler > o.handler)))
order by o.finished_at, o.number;

-- Dead and seen messages are in no index by age, so prune_pick_all walks over all messages by number. Numbers follow the
-- time, so it ends at the first message that is too young. One from the future (a clock that was wrong) is no end.
-- name: prune_bound
select top (1) number from {message}
where created_at > {old_before} and created_at <= {now}
order by number;

-- name: prune_pick_all
select top (@limit) m.number, m.source, m.id from {message} m with (updlock, readpast, rowlock)
where m.number > @after and m.number < @below and {prunable}
order by m.number;

-- The candidates are locked, and read again: an earlier accept has added its deliveries. A mark ends, or is released,
-- without a lock on its message, so it is locked, too. A message whose mark another transaction holds is left for the
-- next time; its outcomes are not read, which would wait.
-- name: prune
declare @old table (number bigint primary key);
declare @marked table (number bigint, handler nvarchar(200) {binary}, primary key (number, handler));
declare @free table (number bigint primary key);
update {message} set seen_count = seen_count where number in (select k.number from {numbers});
insert into @marked (number, handler)
select d.number, d.handler from {outcome} d with (updlock, readpast, rowlock)
where d.state = 4 and d.number in (select k.number from {numbers});
insert into @free (number)
select k.number from {numbers}
where (select count(*) from {outcome} d with (nolock) where d.number = k.number and d.state = 4)
      = (select count(*) from @marked l where l.number = k.number)
group by k.number;
insert into @old (number)
select m.number from {message} m where m.number in (select f.number from @free f) and {prunable};
delete from {outcome} where number in (select p.number from @old p);
delete from {failure} where number in (select p.number from @old p);
delete from {message} output deleted.number as number where number in (select p.number from @old p);

-- define: message_columns
m.number, m.source, m.id, m.topic, m.correlation_id, m.partition_key, m.content_type, m.created_at,
  m.last_seen_at, m.due_at, m.expires_at, m.seen_count, m.content_version, datalength(m.payload) as size

-- define: delivery_state
case when d.waiting = 1 then 3 when d.lease_until > {now} then 2 when d.visible_at > {now} then 1 else 0 end

-- define: delivery_columns
d.handler, d.id as delivery_id,
  {delivery_state} as state,
  d.attempts, d.expiries, d.requeues, d.visible_at, d.lease_until, d.owner, cast(null as datetime2(6)) as finished_at,
  cast(null as nvarchar(max)) as reason, d.last_error

-- define: outcome_columns
d.handler, d.delivery_id, d.state + 3 as state, d.attempts, d.expiries, d.requeues,
  cast(null as datetime2(6)) as visible_at, cast(null as datetime2(6)) as lease_until, d.finished_by as owner,
  d.finished_at, d.reason, d.last_error

-- define: matches
(@topic is null or m.topic = @topic)
  and (@source is null or m.source = @source)
  and (@message_id is null or m.id = @message_id)
  and (@correlation_id is null or m.correlation_id = @correlation_id)
  and (@since is null or m.created_at >= @since)
  and (@until is null or m.created_at < @until)

-- Found as it is written: with its case.
-- define: error_matches
(@error is null or charindex(@error {binary}, d.last_error {binary}) > 0)

-- define: delivery_matches
(@handler is null or d.handler = @handler) and {error_matches}

-- define: before
(d.number < @before or (d.number = @before and d.handler < @before_handler))

-- Newest first; the page begins below (@before, @before_handler). @state: one of {delivery_state}, or null.
-- name: list_open
select top (@limit) {message_columns}, {delivery_columns}
from {work} d join {message} m on m.number = d.number
where {before} and {matches} and {delivery_matches}
  and (@state is null or @state = {delivery_state})
order by d.number desc, d.handler desc;

-- name: list_dead
select top (@limit) {message_columns}, {outcome_columns}
from {outcome} d join {message} m on m.number = d.number
where d.state = 2 and {before} and {matches} and {delivery_matches}
order by d.number desc, d.handler desc;

-- @state: 1 done, 3 discarded, 4 marked.
-- name: list_finished
select top (@limit) {message_columns}, {outcome_columns}
from {outcome} d join {message} m on m.number = d.number
where d.state = @state and {before} and {matches} and {delivery_matches}
order by d.number desc, d.handler desc;

-- Messages in any state; their deliveries are read one message at a time.
-- name: list_all
select top (@limit) {message_columns}
from {message} m
where m.number < @before and {matches}
  and (@handler is null
       or exists (select 1 from {work} d where d.number = m.number and d.handler = @handler)
       or exists (select 1 from {outcome} d where d.number = m.number and d.handler = @handler))
  and (@error is null
       or exists (select 1 from {work} d where d.number = m.number and {error_matches})
       or exists (select 1 from {outcome} d where d.number = m.number and {error_matches}))
  and (@seen = 0
       or (not exists (select 1 from {work} d where d.number = m.number)
           and not exists (select 1 from {outcome} d where d.number = m.number)))
order by m.number desc;

-- name: get
select {message_columns}, m.payload, m.headers, m.hash, m.hash_algorithm
from {message} m where m.id = @id and m.source = @source;

-- The sources that know an id: calls without a source succeed only if there is one.
-- name: find_sources
select top (@limit) m.source from {message} m where m.id = @id order by m.source;

-- name: deliveries
select * from (
  select {delivery_columns} from {work} d where d.number = @number
  union all
  select {outcome_columns} from {outcome} d where d.number = @number) as all_deliveries
order by handler;

-- name: failures
select f.failed_at, f.handler, f.attempt, f.worker, f.error
from (select top (@limit) * from {failure} where number = @number order by id desc) as f order by f.id;

-- define: free
(d.lease_until is null or d.lease_until <= {now})

-- Counts by topic, handler and holder of the lease.
-- define: open_groups
select c.topic, c.handler, c.holder, sum(c.ready), sum(c.scheduled), sum(c.leased), sum(c.waiting), 0, 0, 0, 0, 0,
       min(c.pending_since), min(c.created_at)
from (
  select coalesce(m.topic, N'') as topic, d.handler, m.created_at,
         case when d.waiting = 0 and d.visible_at <= {now} and {free} then 1 else 0 end as ready,
         case when d.waiting = 0 and d.visible_at > {now} and {free} then 1 else 0 end as scheduled,
         case when d.lease_until > {now} then 1 else 0 end as leased,
         case when d.waiting = 1 then 1 else 0 end as waiting,
         case when d.waiting = 0 and d.visible_at <= {now} then d.visible_at end as pending_since,
         case when d.lease_until > {now} then d.owner end as holder
  from {work} d join {message} m on m.number = d.number) as c
group by c.topic, c.handler, c.holder

-- define: dead_groups
select coalesce(m.topic, N''), d.handler, null, 0, 0, 0, 0, count(*), 0, 0, 0, 0, null, null
from {outcome} d join {message} m on m.number = d.number
where d.state = 2 group by m.topic, d.handler

-- define: history_groups
select c.topic, c.handler, null, 0, 0, 0, 0, 0, sum(c.done), sum(c.discarded), sum(c.marked), sum(c.seen), null, null
from (
  select coalesce(m.topic, N'') as topic, coalesce(d.handler, N'') as handler,
         case when d.state = 1 then 1 else 0 end as done, case when d.state = 3 then 1 else 0 end as discarded,
         case when d.state = 4 then 1 else 0 end as marked, case when d.state is null then 1 else 0 end as seen
  from {message} m left join {outcome} d on d.number = m.number
  where coalesce(d.state, 0) <> 2 and (d.state is not null
    or not exists (select 1 from {work} w where w.number = m.number))) as c
group by c.topic, c.handler

-- A common table expression would be read once for each kind.
-- define: counted
declare @counted table (
  topic nvarchar(500) {binary}, handler nvarchar(200) {binary}, holder uniqueidentifier, ready bigint, scheduled bigint,
  leased bigint, waiting bigint, dead bigint, done bigint, discarded bigint, marked bigint, seen bigint,
  pending_since datetime2(6), open_since datetime2(6));
insert into @counted (topic, handler, holder, ready, scheduled, leased, waiting, dead, done, discarded, marked, seen,
                      pending_since, open_since)

-- define: sums
sum(ready) as ready, sum(scheduled) as scheduled, sum(leased) as leased, sum(waiting) as waiting, sum(dead) as dead,
  sum(done) as done, sum(discarded) as discarded, sum(marked) as marked, sum(seen) as seen,
  min(pending_since) as pending_since, min(open_since) as open_since

-- The @names topics (kind 0), handlers (1) and holders (2) with the most; one row of each kind sums up all others.
-- define: top_names
select t.kind, t.name, t.holder, count(*) as names, {sums},
       cast(datediff_big(microsecond, min(t.pending_since), {now}) as float) / 1000000 as oldest_pending,
       cast(datediff_big(microsecond, min(t.open_since), {now}) as float) / 1000000 as oldest_open
from (
  select p.kind, case when p.place <= @names then p.name end as name, case when p.place <= @names then p.holder end as holder,
         p.ready, p.scheduled, p.leased, p.waiting, p.dead, p.done, p.discarded, p.marked, p.seen,
         p.pending_since, p.open_since
  from (
    select b.*, row_number() over (
      partition by b.kind
      order by b.ready + b.scheduled + b.leased + b.waiting + b.dead + b.done + b.discarded + b.marked + b.seen desc,
               b.name, b.holder) as place
    from (
      select 0 as kind, topic as name, cast(null as uniqueidentifier) as holder, {sums} from @counted group by topic
      union all
      select 1, handler, null, {sums} from @counted group by handler
      union all
      select 2, N'' {binary}, holder, {sums} from @counted where holder is not null group by holder) as b) as p) as t
group by t.kind, t.name, t.holder

-- name: count
{counted}
{open_groups} union all {dead_groups};
{top_names};

-- Reads the whole history.
-- name: count_history
{counted}
{open_groups} union all {dead_groups} union all {history_groups};
{top_names};

-- One row for each dead letter: sorting them by their errors would cost more than reading them. The beginning of the
-- error decides the group (normalise_error), so no more of it is read.
-- name: group_dead
select m.topic, d.handler, left(d.last_error, 500) as error, d.finished_at
from {outcome} d join {message} m on m.number = d.number
where d.state = 2;

-- The dead letters between @first and @last that hold their partition keys, and how many wait behind each, up to a
-- bound. A requeued one holds its key until it is done.
-- name: held_keys
select top (@limit) h.number, h.handler, h.partition_key, h.requeued, m.source, m.id, (
  select count(*) from (
    select top (@most) w.id from {work} w
    where w.partition_key = h.partition_key and w.handler = h.handler and w.waiting = 1) as behind) as waiting
from {hold} h join {message} m on m.number = h.number
where h.number between @first and @last
order by h.number, h.handler;

-- Partition keys whose first delivery is due more than @far ahead, and how many wait behind it, up to a bound.
-- define: blocked
from (
  select d.number, d.handler, d.partition_key, d.visible_at, m.source, m.id, (
    select count(*) from (
      select top (@most) w.id from {work} w
      where w.partition_key = d.partition_key and w.handler = d.handler and w.waiting = 1) as behind) as waiting
  from {work} d join {message} m on m.number = d.number
  where d.waiting = 0 and d.partition_key is not null
    and d.visible_at > dateadd(second, cast(@far / 1000000 as int), {now})) as b
where b.waiting > 0

-- name: blocked_keys
select top (@limit) b.number, b.handler, b.partition_key, b.visible_at, b.source, b.id, b.waiting
{blocked} order by b.visible_at desc;

-- name: blocked_by
select b.number, b.handler, b.partition_key, b.visible_at, b.source, b.id, b.waiting
{blocked} and b.number = @number order by b.handler;

-- The keys of open deliveries, from both ends of the backlog: a start-up must not read all of it.
-- name: open_keys
select handler from (select top (@limit) handler from {work} order by number, handler) as oldest
union
select handler from (select top (@limit) handler from {work} order by number desc, handler desc) as newest;

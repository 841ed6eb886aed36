-- The life of a delivery: claimed, settled, swept. A block is one batch. Columns of values come as one JSON array
-- @rows; the changes of a row are in a table variable first, because the OUTPUT of a DELETE on a table with a trigger
-- can go nowhere else. A statement whose count matters returns a row for each change.

-- Microseconds do not fit into the int that DATEADD takes.
-- define: lease_end
dateadd(microsecond, cast(@lease % 1000000 as int), dateadd(second, cast(@lease / 1000000 as int), {now}))

-- define: lease
set owner = @owner, epoch = case when epoch < 2147483647 then epoch + 1 else epoch end, lease_until = {lease_end},
    expiries = case when lease_until is not null and expiries < 2147483647 then expiries + 1 else expiries end

-- define: free
(lease_until is null or lease_until <= {now}) and (expires_at is null or expires_at > {now})

-- define: deliveries
(select j.delivery, {plain:error} as error, j.delay
 from openjson(@rows) with (
   delivery bigint '$.id', error nvarchar(max) '$.error', delay bigint '$.delay') as j) as k

-- define: leases
openjson(@rows) with (delivery bigint '$.id', lease_epoch int '$.epoch') as k

-- Whose lease it is.
-- define: held
owner = @owner and id in (select k.delivery from {leases} where @check_epoch = 0 or k.lease_epoch = epoch)

-- The removed deliveries.
-- define: gone
declare @gone table (
  number bigint, id bigint primary key, epoch int, attempts int, expiries int, requeues int, visible_at datetime2(6),
  lease_until datetime2(6), handler nvarchar(200) {binary}, last_error nvarchar(max));

-- define: into_gone
output deleted.number, deleted.id, deleted.epoch, deleted.attempts, deleted.expiries, deleted.requeues,
  deleted.visible_at, deleted.lease_until, deleted.handler, deleted.last_error into @gone

-- The UPDATE goes by id, since a search by the condition would wait for rows that others have locked; the condition
-- is repeated in it: after waiting for a row the UPDATE finds it leased. A row whose last worker died with it
-- (expiries) is handed out alone, so that it cannot affect its neighbours. A delivery whose message row is gone comes
-- without a message: the caller makes it dead.
-- name: claim
declare @picked table (id bigint primary key, visible_at datetime2(6), expired int);
declare @taken table (id bigint primary key);
insert into @picked (id, visible_at, expired)
select top (@limit) id, visible_at,
       case when lease_until is not null and expiries < 2147483647 then expiries + 1 else expiries end
from {work} with (updlock, readpast, rowlock)
where waiting = 0 and visible_at <= {now} and visible_at >= coalesce(@floor, '0001-01-01') and {free}
order by visible_at, id;
declare @first bigint = (select top (1) id from @picked order by visible_at, id);
declare @alone bit = (select case when expired > 0 then 1 else 0 end from @picked where id = @first);
delete from @picked where (@alone = 1 and id <> @first) or (@alone = 0 and expired > 0);
update {work} {lease}
output inserted.id into @taken (id)
where id in (select p.id from @picked p) and waiting = 0 and visible_at <= {now} and {free}
  and (@alone = 1 or (lease_until is null and expiries = 0));
select {claimed}
from {work} w left join {message} m on m.number = w.number
where w.id in (select t.id from @taken t)
order by w.visible_at, w.id;

-- The deliveries of one message, for the caller that has just accepted it.
-- name: claim_message
declare @taken table (id bigint primary key);
update {work} {lease}
output inserted.id into @taken (id)
where number = (select m.number from {message} m where m.id = @message_id and m.source = @source)
  and waiting = 0 and (visible_at <= {now} or @due_only = 0) and {free};
select {claimed}
from {work} w join {message} m on m.number = w.number
where w.id in (select t.id from @taken t)
order by w.visible_at, w.id;

-- A clock that steps backwards never shortens a lease.
-- name: renew
update {work} set lease_until = case when lease_until > {lease_end} then lease_until else {lease_end} end
output inserted.id as id
where {held} and lease_until > {now};

-- A successful outcome has no error; earlier failures are in the timeline.
-- name: ack
{gone}
delete from {work} {into_gone} where {held};
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler)
select number, id, {now}, @owner, attempts, expiries, requeues, 1, handler from @gone;
select id from @gone;

-- name: attempts
select id, attempts from {work}
where id in (select k.delivery from openjson(@rows) with (delivery bigint '$.id') as k);

-- name: abandon
declare @settled table (id bigint primary key, number bigint, attempts int, handler nvarchar(200) {binary});
declare @next table (id bigint primary key, error nvarchar(max), delay bigint);
update {work} set attempts = case when attempts < 2147483647 then attempts + 1 else attempts end,
  owner = null, lease_until = null
output inserted.id, inserted.number, inserted.attempts, inserted.handler into @settled (id, number, attempts, handler)
where {held};
insert into @next (id, error, delay)
select s.id, max(k.error), cast(coalesce(max(k.delay), min(case
         when @first_delay * power(2e0, case when s.attempts > 40 then 40 else s.attempts - 1 end) < @max_delay
           then @first_delay * power(2e0, case when s.attempts > 40 then 40 else s.attempts - 1 end)
         else @max_delay end)) as bigint)
from @settled s join {deliveries} on k.delivery = s.id
group by s.id;
update w
set last_error = n.error,
    visible_at = case when m.due_at > n.visible_at then m.due_at else n.visible_at end
from {work} w
join (select id, error,
             dateadd(microsecond, cast(delay % 1000000 as int),
                     dateadd(second, cast(delay / 1000000 as int), {now})) as visible_at
      from @next) n on n.id = w.id
join {message} m on m.number = w.number;
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select s.number, s.id, {now}, @owner, s.attempts, s.handler, n.error
from @settled s join @next n on n.id = s.id order by s.id;
select id from @settled;

-- Without an owner it is the operator's form: it skips leased deliveries. A released delivery keeps its position in
-- the order.
-- name: release
update {work}
set owner = null, lease_until = null,
    visible_at = case when @until is not null then @until when visible_at < {now} then visible_at else {now} end
output inserted.id as id
where (@owner is not null and {held})
   or (@owner is null and id in (select k.delivery from {leases}) and (lease_until is null or lease_until <= {now}));

-- The deliveries that a claim without an answer has leased to its owner: all except @held, an object of ids and
-- epochs. Claims take the oldest, so they are among the first @limit rows; no transaction has them locked.
-- name: release_lost
declare @first table (id bigint primary key, owner uniqueidentifier);
insert into @first (id, owner)
select top (@limit) id, owner from {work} with (readpast, rowlock)
where waiting = 0 and visible_at <= {now}
order by visible_at, id;
update {work} set owner = null, lease_until = null
output inserted.id as id
where id in (select f.id from @first f where f.owner = @owner) and owner = @owner
  and not exists (select 1 from openjson(@held) as h
                  where cast(h.[key] as bigint) = id and cast(h.value as int) = epoch);

-- With @hold_keys a dead letter holds its partition key, before the trigger releases the next delivery. The keys
-- before the rows, as accept and requeue lock them; then the rows, by an update without a change: the holders are
-- known before the rows are deleted.
-- name: fail
{gone}
{keys}
declare @told table (id bigint primary key, error nvarchar(max));
declare @holding table (number bigint, handler nvarchar(200) {binary}, partition_key nvarchar(255) {binary});
insert into @keys (partition_key)
select partition_key from {work} where @hold_keys = 1 and partition_key is not null and {held};
{lock_keys}
update {work} set epoch = epoch
output inserted.number, inserted.handler, inserted.partition_key into @holding (number, handler, partition_key)
where @hold_keys = 1 and partition_key is not null and {held};
update h set requeued = 0 from {hold} h join @holding n on n.number = h.number and n.handler = h.handler;
insert into {hold} (number, handler, partition_key)
select n.number, n.handler, n.partition_key from @holding n
where not exists (select 1 from {hold} h where h.partition_key = n.partition_key and h.handler = n.handler);
delete from {work} {into_gone} where {held};
-- Two leases of one delivery, a stale one and the right one, may come in one call.
insert into @told (id, error)
select g.id, coalesce(max(k.error), max(g.last_error) {binary})
from @gone g
join (select j.delivery, {plain:error} as error
      from openjson(@rows) with (delivery bigint '$.id', error nvarchar(max) '$.error') as j) as k on k.delivery = g.id
group by g.id;
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select g.number, g.id, {now}, @owner,
       case when g.attempts < 2147483647 then g.attempts + 1 else g.attempts end, g.handler, t.error
from @gone g join @told t on t.id = g.id where @counts = 1 order by g.id;
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       reason, last_error)
select g.number, g.id, {now}, @owner,
       case when @counts = 1 and g.attempts < 2147483647 then g.attempts + 1 else g.attempts end, g.expiries, g.requeues, 2,
       g.handler, @reason, t.error
from @gone g join @told t on t.id = g.id;
select id from @gone;

-- name: reap
update {work} set owner = null, lease_until = null,
  expiries = case when expiries < 2147483647 then expiries + 1 else expiries end
output inserted.id as id
where lease_until <= {now} and id in (
  select top (@limit) w.id from {work} w with (updlock, readpast, rowlock) where w.lease_until <= {now});

-- A page of expired leases, and the statement that clears them.
-- name: reap_pick
select top (@limit) w.id, m.source, m.id as message_id
from {work} w with (updlock, readpast, rowlock)
left join {message} m with (readpast) on m.number = w.number
where w.id > @after and w.lease_until <= {now}
order by w.id;

-- name: reap_picked
update {work} set owner = null, lease_until = null,
  expiries = case when expiries < 2147483647 then expiries + 1 else expiries end
output inserted.id as id
where lease_until <= {now} and id in (select k.delivery from openjson(@rows) with (delivery bigint '$.id') as k);

-- define: unleased
(w.lease_until is null or w.lease_until <= {now})

-- The rows of a page.
-- define: old
declare @old table (
  id bigint primary key, number bigint, expires_at datetime2(6), handler nvarchar(200) {binary},
  partition_key nvarchar(255) {binary});

-- The keys before the rows, as accept and requeue lock them: a transaction that ends the head of a key holds the key
-- and needs the row of the next one. A key that another transaction holds is skipped: it leaves @keys, and its rows
-- wait for the next time.
-- define: try_keys
insert into @keys (partition_key) select distinct partition_key from @old where partition_key is not null;
declare @key nvarchar(255) = (select min(partition_key) from @keys);
declare @resource nvarchar(255);
declare @locked int;
while @key is not null
begin
set @resource = left({lock_text} + @key, 127);
exec @locked = sp_getapplock @resource, 'Exclusive', 'Transaction', 0;
if @locked < 0 delete from @keys where partition_key = @key;
set @key = (select min(partition_key) from @keys where partition_key > @key);
end;

-- define: is_free
cast(case when o.partition_key is null or o.partition_key in (select k.partition_key from @keys k)
          then 1 else 0 end as bit) as free

-- A page of open deliveries past their expiry; `free`: no other transaction holds their partition key.
-- name: expire_pick
{old}
{keys}
insert into @old (id, number, expires_at, partition_key)
select top (@limit) w.id, w.number, w.expires_at, w.partition_key from {work} w with (readpast)
where w.expires_at <= {now} and {unleased}
  and w.expires_at >= coalesce(@after_at, '0001-01-01')
  and (w.expires_at > coalesce(@after_at, '0001-01-01') or w.id > @after)
order by w.expires_at, w.id;
{try_keys}
select o.id, m.source, m.id as message_id, {is_free}, o.expires_at
from @old o left join {message} m with (readpast) on m.number = o.number
order by o.expires_at, o.id;

-- Older than the calendar of DATEADD is older than everything.
-- define: too_young_from
case when @max_age / 86400000000 >= 365 * 1000 then cast('0001-01-01' as datetime2(6))
     else dateadd(microsecond, -cast(@max_age % 1000000 as int),
                  dateadd(second, -cast(@max_age / 1000000 % 86400 as int),
                          dateadd(day, -cast(@max_age / 86400000000 as int), {now}))) end

-- Numbers follow the time, so a walk over open deliveries ends at the first message that is too young. One from the
-- future (a clock that was wrong) is no end.
-- name: max_age_bound
select top (1) w.number
from {work} w with (readpast) join {message} m with (readpast) on m.number = w.number
where m.created_at > {too_young_from} and m.created_at <= {now}
order by w.number;

-- A page of open deliveries of messages that are too old. Requeued deliveries are exempt: an operator sent them.
-- name: max_age_pick
{old}
{keys}
insert into @old (id, number, handler, partition_key)
select top (@limit) w.id, w.number, w.handler, w.partition_key
from {work} w with (readpast) join {message} m with (readpast) on m.number = w.number
where w.number < @below and w.number >= @after and (w.number > @after or w.handler > @after_handler)
  and {unleased} and w.requeues = 0 and m.created_at <= {too_young_from}
order by w.number, w.handler;
{try_keys}
select o.id, m.source, m.id as message_id, {is_free}, o.number, o.handler
from @old o left join {message} m with (readpast) on m.number = o.number
order by o.number, o.handler;

-- Ends the picked deliveries. A delivery whose message row is gone comes without a message.
-- name: expire
{gone}
delete w {into_gone}
from {work} w with (readpast)
where {unleased} and (@reason <> N'expired' or w.expires_at <= {now})
  and w.id in (select k.delivery from openjson(@rows) with (delivery bigint '$.id') as k);
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason, last_error from @gone;
select {claimed}
from @gone w left join {message} m on m.number = w.number
order by w.id;

-- How long until something that was not due @window ago becomes due, in microseconds; negative: it is due by now. The
-- previous claim checked older ones.
-- name: next_due
select top (1) datediff_big(microsecond, {now}, visible_at)
from {work}
where waiting = 0 and (lease_until is null or lease_until <= {now}) and (expires_at is null or expires_at > {now})
  and visible_at > dateadd(microsecond, -cast(@window % 1000000 as int),
                           dateadd(second, -cast(@window / 1000000 as int), {now}))
order by visible_at;

-- The delivery under '' of each message id; an id that several sources share is ambiguous.
-- name: find_due
select m.id, count(*) as sources, min(w.id) as delivery_id
from {message} m
left join {work} w on w.number = m.number and w.handler = N''
where m.id in (select {plain:id} from openjson(@rows) with (id nvarchar(512) '$.id') as j)
group by m.id;

-- Stores messages. A decision by existing rows first writes to the message row, which locks it, and reads in a second
-- statement. Batches have no repeated keys. The bytes of all rows are in @bytes, one after the other; a row has their
-- offset and length.

-- Codes make texts up to twice as long as their columns.
-- define: arrived
(select j.position, {plain:source} as source, {plain:id} as id, {plain:topic} as topic,
        {plain:content_type} as content_type, {plain:headers} as headers, {plain:correlation_id} as correlation_id,
        {plain:partition_key} as partition_key, {plain:hash_algorithm} as hash_algorithm, j.due_at,
        j.expires_at, j.replaces, j.payload_at, j.payload_size, j.hash_at, j.hash_size
 from openjson(@rows) with (
  position bigint '$.position', replaces bit '$.replaces', source nvarchar(510) '$.source', id nvarchar(512) '$.id', topic nvarchar(1000) '$.topic',
  content_type nvarchar(2000) '$.content_type', headers nvarchar(max) '$.headers',
  correlation_id nvarchar(510) '$.correlation_id', partition_key nvarchar(510) '$.partition_key',
  hash_algorithm nvarchar(510) '$.hash_algorithm', due_at datetime2(6) '$.due_at',
  expires_at datetime2(6) '$.expires_at', payload_at bigint '$.payload_at', payload_size bigint '$.payload_size',
  hash_at bigint '$.hash_at', hash_size bigint '$.hash_size') as j) as a

-- define: payload
substring(@bytes, a.payload_at, a.payload_size)

-- define: hash
substring(@bytes, a.hash_at, a.hash_size)

-- define: is_arrived
m.id = a.id and m.source = a.source

-- define: fresh
declare @fresh table (
  number bigint primary key, id nvarchar(256) {binary}, source nvarchar(255) {binary}, due_at datetime2(6),
  expires_at datetime2(6));

-- define: into_fresh
output inserted.number, inserted.id, inserted.source, inserted.due_at, inserted.expires_at
into @fresh (number, id, source, due_at, expires_at)

-- The common case: messages that are new, without partition keys, for one handler. Returns the keys of the others;
-- they go through accept.
-- name: insert_new
{fresh}
{once}
delete from @fresh;
insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, hash, hash_algorithm, due_at,
                       expires_at, created_at, last_seen_at, content_version)
{into_fresh}
select a.source, a.id, a.topic, {payload}, a.content_type, a.headers, a.correlation_id, {hash}, a.hash_algorithm,
       a.due_at, a.expires_at, {now}, {now}, 1
from (
  select j.n, {plain:source} as source, {plain:id} as id, {plain:topic} as topic,
         {plain:content_type} as content_type, {plain:headers} as headers, {plain:correlation_id} as correlation_id,
         {plain:hash_algorithm} as hash_algorithm, j.due_at, j.expires_at, j.payload_at, j.payload_size, j.hash_at,
         j.hash_size
  from openjson(@rows) with (
    n int '$.n', source nvarchar(510) '$.source', id nvarchar(512) '$.id', topic nvarchar(1000) '$.topic',
    content_type nvarchar(2000) '$.content_type', headers nvarchar(max) '$.headers',
    correlation_id nvarchar(510) '$.correlation_id', hash_algorithm nvarchar(510) '$.hash_algorithm',
    due_at datetime2(6) '$.due_at', expires_at datetime2(6) '$.expires_at', payload_at bigint '$.payload_at',
    payload_size bigint '$.payload_size', hash_at bigint '$.hash_at', hash_size bigint '$.hash_size') as j) as a
where not exists (select 1 from {message} m where {is_arrived})
order by a.n;
{end_retry}
insert into {work} (number, handler, visible_at, expires_at)
select number, @handler, case when due_at > {now} then due_at else {now} end, expires_at from @fresh order by number;
select a.id, a.source from (
  select {plain:source} as source, {plain:id} as id
  from openjson(@rows) with (source nvarchar(510) '$.source', id nvarchar(512) '$.id') as j) as a
where not exists (select 1 from @fresh m where {is_arrived});

-- define: delivery
(select d.number, d.handler, 0 as state from {work} d
 union all
 select d.number, d.handler, d.state from {outcome} d)

-- @handlers: [{"key": "…", "legacy": ["…", …]}, …]. A legacy key, or a delivery under '', counts as present. Returns,
-- per message: its position, 0 accepted, 1 duplicate_open, 2 duplicate_done or 3 duplicate_dead, and whether the
-- content differs from that of the known message. A message that only the gate knew has no content yet (version 0):
-- it takes the content of its first delivery, even when the gate's own delivery is done. Other content is taken only
-- if the arrival replaces, the message is unfinished, and none of it is leased. A delivery that another transaction
-- holds right now is about to be claimed or settled, which counts as leased (READPAST).
-- name: accept
{keys}
{fresh}
declare @arrived table (
  position bigint, number bigint primary key, fresh bit, bare bit, replaces bit, replaced bit, conflict bit, is_open bit,
  is_dead bit, is_known bit, deliveries int, partition_key nvarchar(255) {binary}, due_at datetime2(6), expires_at datetime2(6));
declare @free table (id bigint primary key, number bigint);
declare @missing table (position bigint, number bigint, handler nvarchar(200) {binary});
insert into @keys (partition_key)
select a.partition_key from {arrived} where a.partition_key is not null
union
select m.partition_key from {arrived} join {message} m on {is_arrived} where m.partition_key is not null;
{lock_keys}
{once}
delete from @fresh;
insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, partition_key, hash,
                       hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version)
{into_fresh}
select a.source, a.id, a.topic, {payload}, a.content_type, a.headers, a.correlation_id, a.partition_key, {hash},
       a.hash_algorithm, a.due_at, a.expires_at, {now}, {now}, 1
from {arrived}
where not exists (select 1 from {message} m where {is_arrived})
order by a.id, a.source;
{end_retry}
update {message}
set last_seen_at = case when last_seen_at > {now} then last_seen_at else {now} end,
    seen_count = case when seen_count < 2147483647 then seen_count + 1 else seen_count end
where number in (select m.number from {arrived} join {message} m on {is_arrived})
  and number not in (select f.number from @fresh f);
-- It was stored in between, under another key, whose lock must come before the row.
if exists (
  select 1 from {arrived} join {message} m on {is_arrived}
  where m.partition_key is not null and m.partition_key not in (select k.partition_key from @keys k))
begin; throw 51205, 'a message came in at the same time with another partition key: try again', 1; end;
insert into @arrived (position, number, fresh, bare, replaces, replaced, conflict, is_open, is_dead, is_known, deliveries,
                      partition_key, due_at, expires_at)
select a.position, m.number, case when f.number is null then 0 else 1 end,
       case when m.content_version = 0 then 1 else 0 end, a.replaces, 0,
       case when f.number is not null then 0
            when m.content_version > 0 and (m.topic <> a.topic or m.payload <> {payload}
                                            or datalength(m.payload) <> a.payload_size) then 1
            when m.hash <> {hash} and (m.hash_algorithm = a.hash_algorithm
                                       or (m.hash_algorithm is null and a.hash_algorithm is null)) then 1
            else 0 end,
       case when exists (select 1 from {delivery} d where d.number = m.number and d.state in (0, 4)) then 1 else 0 end,
       case when exists (select 1 from {outcome} d where d.number = m.number and d.state = 2) then 1 else 0 end,
       case when exists (select 1 from {delivery} d where d.number = m.number) then 1 else 0 end,
       (select count(*) from {work} w where w.number = m.number),
       case when m.content_version = 0 then a.partition_key else m.partition_key end, m.due_at, m.expires_at
from {arrived} join {message} m on {is_arrived} left join @fresh f on f.number = m.number;
insert into @missing (position, number, handler)
select a.position, a.number, h.handler
from @arrived a
cross join openjson(@handlers) with (handler nvarchar(200) '$.key', legacy nvarchar(max) '$.legacy' as json) as h
where not exists (
  select 1 from {delivery} d
  where d.number = a.number
    and (d.handler = N'' or d.handler = h.handler {binary}
         or d.handler in (select l.value {binary} from openjson(h.legacy) as l)));
insert into @free (id, number)
select w.id, w.number from {work} w with (updlock, rowlock, readpast)
where w.number in (select k.number from @arrived k where k.replaces = 1 and k.fresh = 0)
  and (w.lease_until is null or w.lease_until <= {now});
update k
set replaced = 1, due_at = a.due_at, expires_at = a.expires_at
from @arrived k join {arrived} on a.position = k.position
where k.fresh = 0
  and ((k.bare = 1 and (k.is_known = 0 or k.is_open = 1 or k.is_dead = 1
                        or exists (select 1 from @missing n where n.number = k.number)))
       or (k.bare = 0 and k.replaces = 1 and (k.is_known = 0 or k.is_open = 1 or k.is_dead = 1)
           and k.deliveries = (select count(*) from @free f where f.number = k.number)));
update m
set topic = a.topic, payload = {payload}, content_type = a.content_type, headers = a.headers,
    correlation_id = a.correlation_id, hash = {hash}, hash_algorithm = a.hash_algorithm, due_at = a.due_at,
    expires_at = a.expires_at,
    content_version = case when m.content_version < 2147483647 then m.content_version + 1 else m.content_version end,
    partition_key = case when k.bare = 1 then a.partition_key else m.partition_key end
from {message} m join @arrived k on k.number = m.number join {arrived} on a.position = k.position
where k.replaced = 1;
update w
set visible_at = case when w.attempts = 0 then case when k.due_at > {now} then k.due_at else {now} end
                      when k.due_at > w.visible_at then k.due_at else w.visible_at end,
    expires_at = k.expires_at
from {work} w join @free f on f.id = w.id join @arrived k on k.number = w.number
where k.replaced = 1;
insert into {work} (number, handler, visible_at, expires_at, partition_key, waiting)
select n.number, n.handler, case when k.due_at > {now} then k.due_at else {now} end, k.expires_at, k.partition_key,
       case when k.partition_key is not null
                 and (row_number() over (partition by k.partition_key, n.handler order by n.position) > 1
                      or exists (select 1 from {work} w
                                 where w.partition_key = k.partition_key and w.handler = n.handler)
                      or exists (select 1 from {hold} h
                                 where h.partition_key = k.partition_key and h.handler = n.handler))
            then 1 else 0 end
from @missing n join @arrived k on k.number = n.number
order by n.position;
select k.position,
       case
         when exists (select 1 from @missing n where n.number = k.number) then 0
         when k.is_open = 1 then 1
         when k.is_dead = 1 then 3
         else 2
       end as answer,
       k.conflict
from @arrived k
order by k.position;

-- define: touch
declare @new table (number bigint);
{once}
delete from @new;
insert into {message} (source, id, topic, hash, hash_algorithm, created_at, last_seen_at)
output inserted.number into @new (number)
select @source, @id, @topic, cast(@hash as varbinary(max)), @hash_algorithm, {now}, {now}
where not exists (select 1 from {message} m where m.id = @id and m.source = @source);
{end_retry}
update {message}
set last_seen_at = case when last_seen_at > {now} then last_seen_at else {now} end,
    seen_count = case when seen_count < 2147483647 then seen_count + 1 else seen_count end
where id = @id and source = @source and not exists (select 1 from @new);

-- define: open
(exists (select 1 from {work} d where d.number = m.number)
  or exists (select 1 from {outcome} d where d.number = m.number and d.state = 4))

-- define: dead
exists (select 1 from {outcome} d where d.number = m.number and d.state = 2)

-- define: finished
exists (select 1 from {outcome} d where d.number = m.number)

-- define: state
case when {open} then 1 when {dead} then 3 when {finished} then 2 else 0 end

-- name: observe
{touch}
declare @done bit;
declare @conflict bit;
select @done = case when {state} = 2 then 1 else 0 end,
       @conflict = case when m.hash <> cast(@hash as varbinary(max))
                             and (m.hash_algorithm = @hash_algorithm
                                  or (m.hash_algorithm is null and @hash_algorithm is null)) then 1 else 0 end
from {message} m where m.id = @id and m.source = @source;
update {message} set hash = cast(@hash as varbinary(max)), hash_algorithm = @hash_algorithm
where id = @id and source = @source and hash is null and @hash is not null;
select @done as done, @conflict as conflict;

-- 0 seen, 1 open, 2 done, 3 dead; no row: unknown.
-- name: state
select {state} as state from {message} m where m.id = @id and m.source = @source;

-- The key before the message, as accept locks them: the end of a keyed delivery needs both. An update that changes nothing
-- locks a row whatever the server makes of hints.
-- name: lock_message
{keys}
insert into @keys (partition_key)
select m.partition_key from {message} m where m.id = @id and m.source = @source and m.partition_key is not null;
{lock_keys}
update {message} set seen_count = seen_count where id = @id and source = @source;

-- name: mark_processing
declare @marked table (number bigint);
insert into {outcome} (number, finished_at, state)
output inserted.number into @marked (number)
select m.number, {now}, 4 from {message} m
where m.id = @id and m.source = @source and not {open} and not {finished};
select number from @marked;

-- define: gone
declare @gone table (
  number bigint, id bigint, attempts int, expiries int, requeues int, handler nvarchar(200) {binary},
  last_error nvarchar(max));
declare @changed table (number bigint);
declare @number bigint = (select m.number from {message} m where m.id = @id and m.source = @source);
delete from {work}
output deleted.number, deleted.id, deleted.attempts, deleted.expiries, deleted.requeues, deleted.handler,
  deleted.last_error into @gone (number, id, attempts, expiries, requeues, handler, last_error)
where number = @number;

-- A seen message gets an outcome under ''; open and dead deliveries become done.
-- name: mark_processed
{gone}
update {outcome} set state = 1, finished_at = {now}, reason = 'marked processed'
output inserted.number into @changed (number)
where number = @number and state in (2, 4);
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
select number, id, {now}, attempts, expiries, requeues, 1, handler, 'marked processed', last_error from @gone;
insert into {outcome} (number, finished_at, state, reason)
output inserted.number into @changed (number)
select @number, {now}, 1, 'marked processed'
where @number is not null and not exists (select 1 from {outcome} o where o.number = @number);
select number from @gone union all select number from @changed;

-- name: mark_dead
{gone}
update {outcome}
set state = 2, finished_at = {now}, reason = @reason, last_error = coalesce(@error, last_error)
output inserted.number into @changed (number)
where number = @number and state = 4;
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason, last_error)
select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason, coalesce(@error, last_error) from @gone;
insert into {outcome} (number, finished_at, state, reason, last_error)
output inserted.number into @changed (number)
select @number, {now}, 2, @reason, @error
where @number is not null and not exists (select 1 from {outcome} o where o.number = @number);
select number from @gone union all select number from @changed;

-- The gate: only the one whose row is new may handle the message. The message row is locked, so no other transaction
-- creates the same outcome.
-- name: try_claim
{touch}
declare @claimed table (number bigint);
insert into {outcome} (number, finished_at, state, handler, reason)
output inserted.number into @claimed (number)
select m.number, {now}, 4, @handler, @topic from {message} m
where m.id = @id and m.source = @source
  and not exists (select 1 from {work} d where d.number = m.number and d.handler = @handler)
  and not exists (select 1 from {outcome} d where d.number = m.number and d.handler = @handler);
select number from @claimed;

-- name: release_claim
delete from {outcome}
output deleted.number as number
where state = 4 and handler = @handler
  and number = (select m.number from {message} m where m.id = @id and m.source = @source);

-- For delays, which count from now.
-- name: clock
select {now} as now;

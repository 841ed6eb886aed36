-- Stores messages. One writer at a time: no row changes between two steps.

-- define: new_message
insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, hash, hash_algorithm,
                       due_at, expires_at, created_at, last_seen_at, content_version)
values (@source, @id, @topic, @payload, @content_type, @headers, @correlation_id, @hash, @hash_algorithm,
        @due_at, @expires_at, {now}, {now}, 1)

-- The common case: messages that are new, without partition keys, for one handler. Returns the keys of the others;
-- they go through accept. The delivery of a message that is not new has no number, so "or ignore" skips it: an insert
-- … select would do the same, but SQLite keeps a journal for undoing each.
-- name: insert_new
{new_message}
on conflict (id, source) do nothing;
insert or ignore into {work} (number, handler, visible_at, expires_at)
values (case when changes() = 1 then last_insert_rowid() end, @handler, max(coalesce(@due_at, {now}), {now}),
        @expires_at);
select @id, @source where changes() = 0;

-- The same for ids that were generated for this call: no other caller knows them. A known one nevertheless fails the
-- call.
-- name: insert_generated
{new_message};
insert into {work} (number, handler, visible_at, expires_at)
values (last_insert_rowid(), @handler, max(coalesce(@due_at, {now}), {now}), @expires_at);

-- define: message_number
(select number from {message} where id = @id and source = @source)

-- The handlers without a delivery for m. Whether there is one under '' does not depend on them: it is looked up
-- before the list is taken apart.
-- define: missing
json_each(@handlers) h
  where not exists (select 1 from {work} d where d.number = m.number and d.handler = '')
    and not exists (select 1 from {outcome} d where d.number = m.number and d.handler = '')
    and not exists (
      select 1 from {work} d where d.number = m.number
        and (d.handler = h.value ->> 'key'
             or d.handler in (select l.value from json_each(h.value -> 'legacy') l)))
    and not exists (
      select 1 from {outcome} d where d.number = m.number
        and (d.handler = h.value ->> 'key'
             or d.handler in (select l.value from json_each(h.value -> 'legacy') l)))

-- define: open
(exists (select 1 from {work} d where d.number = m.number)
  or exists (select 1 from {outcome} d where d.number = m.number and d.state = 4))

-- define: dead
exists (select 1 from {outcome} d where d.number = m.number and d.state = 2)

-- define: finished
exists (select 1 from {outcome} d where d.number = m.number)

-- define: move_deliveries
update {work}
set visible_at = case when attempts = 0 then max(coalesce(@due_at, {now}), {now})
                      else max(visible_at, coalesce(@due_at, visible_at)) end,
    expires_at = @expires_at
where number = @number and @replaced

-- define: leased
exists (select 1 from {work} d where d.number = m.number and d.lease_until > {now})

-- The content of m differs from the arrival. A message without content (version 0) may know a hash.
-- define: conflict
(m.content_version > 0 and (m.topic is not @topic or m.payload is not @payload)
 or coalesce(m.hash <> @hash and m.hash_algorithm is @hash_algorithm, 0))

-- @handlers: [{"key": "…", "legacy": ["…", …]}, …]. A legacy key, or a delivery under '', counts as present. Returns,
-- per message: its position, 0 accepted, 1 duplicate_open, 2 duplicate_done or 3 duplicate_dead, and whether the
-- content differs from that of the known message. A message that only the gate knew has no content yet (version 0):
-- it takes the content of its first delivery, even when the gate's own delivery is done. Other content is taken only
-- if the arrival replaces, the message is unfinished, and none of it is leased. The deliveries that are missing are
-- read before they are added, one by one: an insert … select that reads its own table costs a table of its own, even
-- when it adds nothing. So each of them gives the same answer once more.
-- name: accept
insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, partition_key, hash,
                       hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version)
values (@source, @id, @topic, @payload, @content_type, @headers, @correlation_id, @partition_key, @hash,
        @hash_algorithm, @due_at, @expires_at, {now}, {now}, 1)
on conflict (id, source) do update
set last_seen_at = max(last_seen_at, excluded.last_seen_at), seen_count = min(seen_count, 2147483646) + 1;

select @position,
       case
         when exists (select 1 from {missing}) then 0
         when {open} then 1
         when {dead} then 3
         else 2
       end as answer,
       m.seen_count > 1 and {conflict} as conflict, m.number as number,
       m.seen_count > 1 and case
         when m.content_version = 0
           then {open} or {dead} or not {finished} or exists (select 1 from {missing})
         else @replaces and ({open} or {dead} or not {finished}) and not {leased}
       end as replaced
from {message} m where m.id = @id and m.source = @source;
-- each
update {message}
set topic = @topic, payload = @payload, content_type = @content_type, headers = @headers,
    correlation_id = @correlation_id, hash = @hash, hash_algorithm = @hash_algorithm, due_at = @due_at,
    expires_at = @expires_at, content_version = min(content_version, 2147483646) + 1,
    partition_key = case when content_version = 0 then @partition_key else partition_key end
where number = @number and @replaced;
-- each
{move_deliveries};
-- each
select @position, 0, @conflict, m.number as number, h.value ->> 'key' as wanted, m.partition_key as key,
       m.due_at as due, m.expires_at as expires,
       exists (
         select 1 from {work} w
         where w.partition_key = m.partition_key and w.handler = h.value ->> 'key')
       or exists (
         select 1 from {hold} w
         where w.partition_key = m.partition_key and w.handler = h.value ->> 'key') as waiting
from {message} m cross join {missing} and m.number = @number and @answer = 0;
-- each
insert into {work} (number, handler, visible_at, expires_at, partition_key, waiting)
values (@number, @wanted, max(coalesce(@due, {now}), {now}), @expires, @key, @waiting);

-- Accept for the common case of known messages, found by the direct insert: for one handler, without partition keys.
-- No result: the message has no content yet or lacks the delivery; then it goes through accept.
-- name: accept_known
select @position, case when {open} then 1 when {dead} then 3 else 2 end as answer,
       {conflict} as conflict, m.number as number,
       @replaces and ({open} or {dead}) and not {leased} as replaced
from {message} m
where m.id = @id and m.source = @source and m.content_version > 0
  and (exists (select 1 from {work} d where d.number = m.number and d.handler in ('', @handlers ->> '$[0].key'))
       or exists (select 1 from {outcome} d where d.number = m.number and d.handler in ('', @handlers ->> '$[0].key')));
-- each
update {message}
set last_seen_at = max(last_seen_at, {now}), seen_count = min(seen_count, 2147483646) + 1,
    topic = @topic, payload = @payload,
    content_type = @content_type, headers = @headers, correlation_id = @correlation_id, hash = @hash,
    hash_algorithm = @hash_algorithm, due_at = @due_at, expires_at = @expires_at,
    content_version = min(content_version, 2147483646) + 1
where number = @number and @replaced;
-- each
update {message} set last_seen_at = max(last_seen_at, {now}), seen_count = min(seen_count, 2147483646) + 1
where number = @number and not @replaced;
-- each
{move_deliveries};

-- define: touch
insert into {message} (source, id, topic, hash, hash_algorithm, created_at, last_seen_at)
values (@source, @id, @topic, @hash, @hash_algorithm, {now}, {now})
on conflict (id, source) do update
set last_seen_at = max(last_seen_at, excluded.last_seen_at), seen_count = min(seen_count, 2147483646) + 1;

-- define: state
case when {open} then 1 when {dead} then 3 when {finished} then 2 else 0 end

-- name: observe
{touch}

select {state} = 2, coalesce(m.hash <> @hash and m.hash_algorithm is @hash_algorithm, 0)
from {message} m where m.id = @id and m.source = @source;

update {message} set hash = @hash, hash_algorithm = @hash_algorithm
where id = @id and source = @source and hash is null and @hash is not null;

-- 0 seen, 1 open, 2 done, 3 dead; no row: unknown.
-- name: state
select {state} from {message} m where m.id = @id and m.source = @source;

-- name: lock_message
select number from {message} where id = @id and source = @source;

-- name: mark_processing
insert into {outcome} (number, finished_at, state)
select m.number, {now}, 4 from {message} m
where m.id = @id and m.source = @source and not {open} and not {finished};

-- A seen message gets an outcome under ''; open and dead deliveries become done.
-- name: mark_processed
select m.number from {message} m
where m.id = @id and m.source = @source and ({open} or {dead} or not {finished});
-- each
update {outcome} set state = 1, finished_at = {now}, reason = 'marked processed'
where number = @number and state in (2, 4);
-- each
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, id, {now}, attempts, expiries, requeues, 1, handler, 'marked processed', last_error
from {work} where number = @number;
-- each
delete from {work} where number = @number;
-- each
insert into {outcome} (number, finished_at, state, reason)
select @number, {now}, 1, 'marked processed'
where not exists (select 1 from {outcome} where number = @number);

-- name: mark_dead
select m.number from {message} m
where m.id = @id and m.source = @source
  and ({open} or not {finished});
-- each
update {outcome} set state = 2, finished_at = {now}, reason = @reason, last_error = coalesce(@error, last_error)
where number = @number and state = 4;
-- each
insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason, coalesce(@error, last_error)
from {work} where number = @number;
-- each
delete from {work} where number = @number;
-- each
insert into {outcome} (number, finished_at, state, reason, last_error)
select @number, {now}, 2, @reason, @error
where not exists (select 1 from {outcome} where number = @number);

-- The gate: only the one whose row is new may handle the message.
-- name: try_claim
{touch}

insert into {outcome} (number, finished_at, state, handler, reason)
select {message_number}, {now}, 4, @handler, @topic
where not exists (select 1 from {work} d where d.number = {message_number} and d.handler = @handler)
on conflict do nothing
returning number;

-- name: release_claim
delete from {outcome}
where state = 4 and handler = @handler and number = {message_number}
returning number;

-- For delays, which count from now.
-- name: clock
select {now} as now;

-- Stores messages. A decision by existing rows first locks the message row, and reads in a second step with a new
-- snapshot: the snapshot of one statement is older than the lock it waited for. Batches have no repeated keys; rows
-- are locked in the order of their keys. A column of nulls only may come as a null instead of an array: it is filled
-- up to the length of the others.

-- Runs before a statement that accepts messages, in the same round trip, for boxes whose commits must wait for a
-- standby.
-- name: require_synchronous
select 1 where {function:require_synchronous}()::text is null;

-- Columns are unnested in a select list, side by side: one unnest of them all in a from clause materializes each of
-- them first, which costs the server up to a sixth more for a batch of 16.
-- define: plain_columns
unnest(@source::text[]) as source, unnest(@id::text[]) as id, unnest(@topic::text[]) as topic,
unnest(@payload::bytea[]) as payload, unnest(@content_type::text[]) as content_type,
unnest(@headers::text[]) as headers, unnest(@correlation_id::text[]) as correlation_id,
unnest(@hash::bytea[]) as hash, unnest(@hash_algorithm::text[]) as hash_algorithm,
unnest(@due_at::timestamptz[]) as due_at, unnest(@expires_at::timestamptz[]) as expires_at

-- define: arrived
(select {plain_columns}, unnest(@partition_key::text[]) as partition_key, unnest(@position::bigint[]) as position,
        unnest(@replaces::boolean[]) as replaces) a

-- define: key_lock
hashtextextended(partition_key, {work_text}::regclass::oid::bigint)

-- The content of a known message m differs from the arrival a. A message without content (version 0) may know a hash.
-- define: conflict
(content_version > 0 and (topic is distinct from a.topic or payload is distinct from a.payload)
 or coalesce(hash <> a.hash and hash_algorithm is not distinct from a.hash_algorithm, false))

-- The deliveries of m without a lease, locked until the commit: no claim can read the old content meanwhile. A row
-- that another transaction holds right now is about to be claimed or settled, which counts as leased.
-- define: lock_free
select coalesce(array_agg(place), '{}') as free from (
  select ctid as place from {work}
  where a.replaces and number = m.number and (lease_until is null or lease_until <= {now})
  for update skip locked) w

-- define: move_deliveries
update {work} w
set visible_at = case when w.attempts = 0 then greatest(a.due_at, {now}) else greatest(w.visible_at, a.due_at) end,
    expires_at = a.expires_at
from decided a cross join lateral unnest(a.free) d(place)
where a.replaced and w.ctid = d.place

-- define: new_columns
source, id, topic, payload, content_type, headers, correlation_id, hash, hash_algorithm, due_at, expires_at

-- define: new_message
insert into {message} ({new_columns}, created_at, last_seen_at, content_version)
values (@source::text, @id::text, @topic::text, @payload::bytea, @content_type::text, @headers::text,
        @correlation_id::text, @hash::bytea, @hash_algorithm::text, @due_at::timestamptz,
        @expires_at::timestamptz, {now}, {now}, 1)

-- define: new_messages
insert into {message} ({new_columns}, created_at, last_seen_at, content_version)
select {new_columns}, {now}, {now}, 1
from (select {plain_columns}) a

-- Adding deliveries wakes waiting dispatchers ({wake} is always 0, and evaluated for the first row); a due time in
-- the future concerns them, too.
-- define: new_deliveries
insert into {work} (number, handler, visible_at, expires_at)
select number, @handler::text, greatest(due_at, {now}), expires_at from fresh
where number > (select {wake})

-- The common case: messages that are new, without partition keys, for one handler. Returns the keys of the new ones;
-- the others go through accept. Batches come in the order of their keys: a sort here would carry every payload.
-- name: insert_new
with fresh as (
  {new_messages}
  on conflict (id, source) do nothing
  returning number, id, source, due_at, expires_at
), delivery as (
  {new_deliveries}
)
select id, source from fresh;
-- one
with fresh as (
  {new_message}
  on conflict (id, source) do nothing
  returning number, due_at, expires_at
)
{new_deliveries}
returning @id::text, @source::text;

-- The same for ids that were generated for this call: no other caller knows them, so there is no check first, and no
-- result. A known one nevertheless fails the call.
-- name: insert_generated
with fresh as (
  {new_messages}
  returning number, due_at, expires_at
)
{new_deliveries};
-- one
with fresh as (
  {new_message}
  returning number, due_at, expires_at
)
{new_deliveries};

-- @handlers: [{"key": "…", "legacy": ["…", …]}, …]. A legacy key, or a delivery under '', counts as present. Sorted
-- like the keys of the direct insert in C++, whatever the database's own order. Returns, per message: its position, 0
-- accepted, 1 duplicate_open, 2 duplicate_done or 3 duplicate_dead, and whether the content differs from the earlier
-- one. A message that only the gate knew has no content yet (version 0): it takes the content of its first delivery,
-- even when the gate's own delivery is done. Other content is taken only if the arrival replaces, the message is
-- unfinished, and none of it is leased. The keys are locked before the rows. A message stored in between under
-- another key shows its key only when its row is locked.
-- name: accept
insert into {message} as m (source, id, topic, payload, content_type, headers, correlation_id, partition_key,
                            hash, hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version)
select source, id, topic, payload, content_type, headers, correlation_id, partition_key, hash, hash_algorithm,
       due_at, expires_at, {now}, {now}, 1
from {arrived}
where (
  select count(pg_advisory_xact_lock(lock)) from (
    select {key_lock} as lock
    from (
      select partition_key from unnest(@partition_key::text[]) n(partition_key)
      union all
      select m.partition_key
      from unnest(@id::text[], @source::text[]) k(id, source)
      cross join lateral (
        select partition_key from {message} where id = k.id and source = k.source offset 0) m
    ) all_keys
    where partition_key is not null
    order by 1) keys) >= 0
order by id collate "C", source collate "C"
on conflict (id, source) do update
set last_seen_at = greatest(m.last_seen_at, excluded.last_seen_at), seen_count = least(m.seen_count, 2147483646) + 1
where m.partition_key is null
   or pg_advisory_xact_lock(hashtextextended(m.partition_key, {work_text}::regclass::oid::bigint))::text is not null;

with wanted as materialized (
  select h ->> 'key' as handler,
         array['', h ->> 'key'] || array(select jsonb_array_elements_text(h -> 'legacy')) as present
  from jsonb_array_elements(@handlers::jsonb) h
), arrived as materialized (
  select a.*, m.*, d.*, f.*, d.handlers is null or d.open or d.dead as unfinished,
         case when '' = any(d.handlers) then '{}'
              else array(select w.handler from wanted w
                         where not w.present && coalesce(d.handlers, '{}')) end as missing
  from {arrived}
  cross join lateral (
    select ctid as place, number, seen_count = 1 as fresh, seen_count > 1 and {conflict} as conflict,
           content_version = 0 as bare, partition_key as known_partition_key, due_at as known_due_at,
           expires_at as known_expires_at
    from {message} where id = a.id and source = a.source offset 0) m
  cross join lateral (
    select array_agg(handler) as handlers, bool_or(state in (0, 4)) as open, bool_or(state = 2) as dead,
           count(*) filter (where state = 0) as deliveries
    from (
      select handler, 0::smallint as state from {work} where number = m.number
      union all
      select handler, state from {outcome} where number = m.number) delivery) d
  cross join lateral ({lock_free}) f
), decided as materialized (
  select a.*,
         not a.fresh and case when a.bare then a.unfinished or a.missing <> '{}'
                              else a.replaces and a.unfinished and cardinality(a.free) = a.deliveries end as replaced
  from arrived a
), refreshed as (
  -- The previous step locked the row, so it is still in the same place.
  update {message} m
  set topic = a.topic, payload = a.payload, content_type = a.content_type, headers = a.headers,
      correlation_id = a.correlation_id, hash = a.hash, hash_algorithm = a.hash_algorithm, due_at = a.due_at,
      expires_at = a.expires_at, content_version = least(m.content_version, 2147483646) + 1,
      partition_key = case when a.bare then a.partition_key else m.partition_key end
  from decided a
  where m.ctid = a.place and a.replaced
), moved as (
  {move_deliveries}
), added as (
  insert into {work} (number, handler, visible_at, expires_at, partition_key, waiting)
  select n.number, n.handler, greatest(n.due_at, {now}), n.expires_at, n.partition_key,
         n.partition_key is not null and (
           row_number() over (partition by n.partition_key, n.handler order by n.position) > 1
           or exists (select 1 from {work} w
                      where w.partition_key = n.partition_key and w.handler = n.handler)
           or exists (select 1 from {hold} h
                      where h.partition_key = n.partition_key and h.handler = n.handler))
  from (
    select a.number, a.position, h.handler,
           case when a.replaced then a.due_at else a.known_due_at end as due_at,
           case when a.replaced then a.expires_at else a.known_expires_at end as expires_at,
           case when a.bare then a.partition_key else a.known_partition_key end as partition_key
    from decided a cross join unnest(a.missing) h(handler)) n
  order by n.position
)
select a.position,
       case when a.missing <> '{}' then 0 when a.open then 1 when a.dead then 3 else 2 end as answer, a.conflict
from decided a
where (select case when exists (select 1 from decided where replaced or missing <> '{}') then {wake} else 0 end) = 0;
-- call
select * from {function:accept_batch}(
  @source::text[], @id::text[], @topic::text[], @payload::bytea[], @content_type::text[], @headers::text[],
  @correlation_id::text[], @partition_key::text[], @hash::bytea[], @hash_algorithm::text[],
  @due_at::timestamptz[], @expires_at::timestamptz[], @position::bigint[], @replaces::boolean[], @handlers::text,
  @now::timestamptz);

-- define: only_handler
(select @handlers::jsonb -> 0 ->> 'key')

-- The step for each known message, called a.
-- define: accept_known_write
  cross join lateral (
    select ctid as place, number, {conflict} as conflict
    from {message} where id = a.id and source = a.source and xmax = pg_current_xact_id()::xid offset 0) m
  cross join lateral (
    select bool_or(handler in ('', {only_handler})) as present, count(*) as deliveries
    from {work} where number = m.number) delivery
  cross join lateral (
    select bool_or(handler in ('', {only_handler})) as present, bool_or(state = 4) as open,
           bool_or(state = 2) as dead
    from {outcome} where number = m.number) past
  cross join lateral (
    select delivery.present is not null or past.open is true as open, past.dead is true as dead) so
  cross join lateral ({lock_free}) f
  where delivery.present or past.present
), decided as materialized (
  select a.*, a.replaces and (a.open or a.dead) and cardinality(a.free) = a.deliveries as replaced from arrived a
), seen as (
  update {message} m
  set last_seen_at = greatest(m.last_seen_at, {now}), seen_count = least(m.seen_count, 2147483646) + 1,
      topic = case when a.replaced then a.topic else m.topic end,
      payload = case when a.replaced then a.payload else m.payload end,
      content_type = case when a.replaced then a.content_type else m.content_type end,
      headers = case when a.replaced then a.headers else m.headers end,
      correlation_id = case when a.replaced then a.correlation_id else m.correlation_id end,
      hash = case when a.replaced then a.hash else m.hash end,
      hash_algorithm = case when a.replaced then a.hash_algorithm else m.hash_algorithm end,
      due_at = case when a.replaced then a.due_at else m.due_at end,
      expires_at = case when a.replaced then a.expires_at else m.expires_at end,
      content_version = case when a.replaced then least(m.content_version, 2147483646) + 1 else m.content_version end
  from decided a
  where m.ctid = a.place
), moved as (
  {move_deliveries}
)
select position, case when open then 1 when dead then 3 else 2 end as answer, conflict
from decided
where not replaced or (select {wake}) = 0;

-- Accept for the common case of known messages, found by the direct insert: for one handler, without partition keys.
-- Locks their rows, in the order of their keys, and reads in a second step only the rows that it has locked (xmax):
-- one may have been stored in between. No result: the message has a partition key, whose lock must come first, has no
-- content yet, lacks the delivery, or is gone; then it goes through accept. One update for all of them, with a case
-- for each column: a second update would cost a single call more.
-- name: accept_known
select count(*) from unnest(@id::text[], @source::text[]) a(id, source)
cross join lateral (
  select 1 from {message}
  where id = a.id and source = a.source and partition_key is null and content_version > 0
  for no key update) locked
having count(*) < 0;

with arrived as materialized (
  select a.*, m.*, so.*, f.*, delivery.deliveries
  from (select {plain_columns}, unnest(@position::bigint[]) as position, unnest(@replaces::boolean[]) as replaces) a
{accept_known_write}
-- one
select count(*) from (
  select 1 from {message}
  where id = @id::text and source = @source::text and partition_key is null and content_version > 0
  for no key update) locked
having count(*) < 0;
-- one
with arrived as materialized (
  select a.*, m.*, so.*, f.*, delivery.deliveries
  from (select @source::text as source, @id::text as id, @topic::text as topic, @payload::bytea as payload,
               @content_type::text as content_type, @headers::text as headers,
               @correlation_id::text as correlation_id, @hash::bytea as hash,
               @hash_algorithm::text as hash_algorithm, @due_at::timestamptz as due_at,
               @expires_at::timestamptz as expires_at, @position::bigint as position,
               @replaces::boolean as replaces) a
{accept_known_write}
-- call
select * from {function:accept_batch}(
  @source::text[], @id::text[], @topic::text[], @payload::bytea[], @content_type::text[], @headers::text[],
  @correlation_id::text[], array_fill(null::text, array[cardinality(@id::text[])]), @hash::bytea[],
  @hash_algorithm::text[], @due_at::timestamptz[], @expires_at::timestamptz[], @position::bigint[],
  @replaces::boolean[], @handlers::text, @now::timestamptz);

-- define: touch
insert into {message} as m (source, id, topic, hash, hash_algorithm, created_at, last_seen_at)
values (@source::text, @id::text, @topic::text, @hash::bytea, @hash_algorithm::text, {now}, {now})
on conflict (id, source) do update
set last_seen_at = greatest(m.last_seen_at, excluded.last_seen_at), seen_count = least(m.seen_count, 2147483646) + 1;

-- define: state
case
  when exists (select 1 from {work} d where d.number = m.number) then 1
  when exists (select 1 from {outcome} d where d.number = m.number and d.state = 4) then 1
  when exists (select 1 from {outcome} d where d.number = m.number and d.state = 2) then 3
  when exists (select 1 from {outcome} d where d.number = m.number) then 2
  else 0
end

-- Two steps keep the result and the first hash: the second sees the earlier state only in the row's own columns, so
-- the hash is compared before it is stored.
-- name: observe
{touch}

with seen as materialized (
  select m.number, m.hash, m.hash_algorithm, {state} = 2 as done
  from {message} m where m.id = @id::text and m.source = @source::text
), kept as (
  update {message} m set hash = @hash::bytea, hash_algorithm = @hash_algorithm::text
  from seen where m.number = seen.number and m.hash is null and @hash::bytea is not null
)
select done, coalesce(hash <> @hash::bytea and hash_algorithm is not distinct from @hash_algorithm::text, false)
from seen;

-- 0 seen, 1 open, 2 done, 3 dead; no row: unknown.
-- name: state
select {state} from {message} m where m.id = @id::text and m.source = @source::text;

-- The key before the message, as accept locks them: the end of a keyed delivery needs both.
-- name: lock_message
select 1 from (
  select pg_advisory_xact_lock({key_lock}) as held from {message}
  where id = @id::text and source = @source::text and partition_key is not null
) locks where held::text is null;

select number from {message} where id = @id::text and source = @source::text for update;

-- name: mark_processing
insert into {outcome} (number, finished_at, state)
select m.number, {now}, 4 from {message} m
where m.id = @id::text and m.source = @source::text
  and not exists (select 1 from {work} d where d.number = m.number)
  and not exists (select 1 from {outcome} d where d.number = m.number)
on conflict do nothing;

-- A seen message gets an outcome under ''; open and dead deliveries become done.
-- name: mark_processed
with found as materialized (
  select number from {message} m where m.id = @id::text and m.source = @source::text
), gone as (
  delete from {work} w where w.number = (select number from found)
  returning w.*
), moved as (
  insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                         last_error)
  select number, id, {now}, attempts, expiries, requeues, 1, handler, 'marked processed', last_error from gone
  returning number
), revived as (
  update {outcome} o set state = 1, finished_at = {now}, reason = 'marked processed'
  where o.number = (select number from found) and o.state in (2, 4)
  returning o.number
), seen as (
  insert into {outcome} (number, finished_at, state, reason)
  select f.number, {now}, 1, 'marked processed' from found f
  where not exists (select 1 from {work} d where d.number = f.number)
    and not exists (select 1 from {outcome} d where d.number = f.number)
  on conflict do nothing
  returning number
)
select number from moved union all select number from revived union all select number from seen;

-- name: mark_dead
with found as materialized (
  select number from {message} m where m.id = @id::text and m.source = @source::text
), gone as (
  delete from {work} w where w.number = (select number from found)
  returning w.*
), moved as (
  insert into {outcome} (number, delivery_id, finished_at, attempts, expiries, requeues, state, handler, reason,
                         last_error)
  select number, id, {now}, attempts, expiries, requeues, 2, handler, @reason::text,
         coalesce(@error::text, last_error)
  from gone
  returning number
), given_up as (
  update {outcome} o
  set state = 2, finished_at = {now}, reason = @reason::text, last_error = coalesce(@error::text, o.last_error)
  where o.number = (select number from found) and o.state = 4
  returning o.number
), seen as (
  insert into {outcome} (number, finished_at, state, reason, last_error)
  select f.number, {now}, 2, @reason::text, @error::text from found f
  where not exists (select 1 from {work} d where d.number = f.number)
    and not exists (select 1 from {outcome} d where d.number = f.number)
  on conflict do nothing
  returning number
)
select number from moved union all select number from given_up union all select number from seen;

-- The gate: only the one whose row is new may handle the message.
-- name: try_claim
{touch}

insert into {outcome} (number, finished_at, state, handler, reason)
select m.number, {now}, 4, @handler::text, @topic::text from {message} m
where m.id = @id::text and m.source = @source::text
  and not exists (select 1 from {work} d where d.number = m.number and d.handler = @handler::text)
  -- A transaction with an old snapshot sees neither later changes of a known message nor that a message was pruned.
  and case when current_setting('transaction_isolation') in ('repeatable read', 'serializable')
                and (m.seen_count > 1
                     or (select count(*) from {message} o where o.id = @id::text and o.source = @source::text) > 1)
           then {function:refuse_isolation}('a claim of a message that is already known')::text is null
           else true end
on conflict do nothing
returning number;

-- name: release_claim
delete from {outcome} o
where o.state = 4 and o.handler = @handler::text
  and o.number = (select m.number from {message} m where m.id = @id::text and m.source = @source::text)
returning o.number;

-- For delays, which count from now.
-- name: clock
select {now} as now;

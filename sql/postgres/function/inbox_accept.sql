-- A program in any language accepts inside its own transaction: select state from infra.inbox_accept('source', 'id',
-- 'topic', 'payload'). Returns a row: the state 'accepted', 'duplicate_open', 'duplicate_done' or 'duplicate_dead',
-- whether it is a duplicate, and whether the message was known with another topic, payload or hash. The first message
-- of a key is kept unchanged.

create or replace function {function:accept}(
  source text, id text, topic text, payload bytea, hash bytea default null, due_at timestamptz default null,
  handlers text[] default array[''], correlation_id text default null, partition_key text default null,
  headers text default null, content_type text default null, expires_at timestamptz default null,
  hash_algorithm text default 'sha256', out state text, out duplicate boolean, out conflict boolean)
language plpgsql as $twinbox$
begin
  perform {function:check_text}('source', source, 255);
  perform {function:check_text}('id', id, case when handlers = array[''] then 255 else 200 end);
  perform {function:check_text}('topic', topic, 255);
  perform {function:check_extras}(payload, correlation_id, partition_key, headers);
  if content_type <> '' then
    perform {function:check_text}('content_type', content_type, 1000);
  end if;
  if hash = '' then
    raise exception 'hash: empty (pass null when there is none)' using errcode = 'invalid_parameter_value';
  end if;
  if hash is not null then
    perform {function:check_text}('hash_algorithm', hash_algorithm, 255);
  end if;
  if coalesce(cardinality(handlers), 0) = 0
     or cardinality(handlers) <> (select count(distinct h) from unnest(handlers) h) then
    raise exception 'handlers: at least one is needed, each once' using errcode = 'invalid_parameter_value';
  end if;
  perform {function:check_text}('handler', h, 200) from unnest(handlers) h where h <> '';
  select (array['accepted', 'duplicate_open', 'duplicate_done', 'duplicate_dead'])[b.answer + 1], b.answer <> 0,
         b.conflict
  into state, duplicate, conflict from {function:accept_batch}(
    array[source], array[id], array[topic], array[payload], array[content_type], array[headers],
    array[nullif(correlation_id, '')], array[nullif(partition_key, '')], array[hash],
    array[case when hash is not null then hash_algorithm end], array[due_at], array[expires_at],
    array[1::bigint], array[false],
    (select jsonb_agg(jsonb_build_object('key', h, 'legacy', '[]'::jsonb))::text from unnest(handlers) h)) b;
end $twinbox$;
comment on function {function:accept}(text, text, text, bytea, bytea, timestamptz, text[], text, text, text, text,
  timestamptz, text) is
  'Accepts a message into the inbox, once per source and id, in your transaction. Returns state, duplicate and conflict.';

create or replace function {function:accept}(
  source text, id text, topic text, payload text, hash bytea default null, due_at timestamptz default null,
  handlers text[] default array[''], correlation_id text default null, partition_key text default null,
  headers text default null, content_type text default null, expires_at timestamptz default null,
  hash_algorithm text default 'sha256', out state text, out duplicate boolean, out conflict boolean)
language sql as $twinbox$
  select * from {function:accept}(source, id, topic, convert_to(payload, 'UTF8'), hash, due_at, handlers, correlation_id,
                                  partition_key, headers, content_type, expires_at, hash_algorithm)
$twinbox$;
comment on function {function:accept}(text, text, text, text, bytea, timestamptz, text[], text, text, text, text,
  timestamptz, text) is
  'Accepts a message into the inbox, once per source and id, in your transaction. Returns state, duplicate and conflict.';

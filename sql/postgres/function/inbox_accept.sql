-- A program in any language accepts inside its own transaction. Answers 'accepted', 'duplicate_open',
-- 'duplicate_done' or 'duplicate_dead'.

create or replace function {function:accept}(
  source text, id text, topic text, payload bytea, hash bytea default null, due_at timestamptz default null,
  handlers text[] default array[''], correlation_id text default null, partition_key text default null,
  headers text default null, content_type text default null, expires_at timestamptz default null,
  hash_algorithm text default 'sha256')
returns text
language plpgsql as $twinbox$
declare
  answer int;
begin
  if btrim(coalesce(source, '')) = '' or length(source) > 255 then
    raise exception 'source: must be 1 to 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if btrim(coalesce(id, '')) = '' or length(id) > 255 then
    raise exception 'id: must be 1 to 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if btrim(coalesce(topic, '')) = '' or length(topic) > 255 then
    raise exception 'topic: must be 1 to 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if payload is null then
    raise exception 'payload: must not be null (it may be empty)' using errcode = 'invalid_parameter_value';
  end if;
  select b.answer into answer from {function:accept_batch}(
    array[source], array[id], array[topic], array[payload], array[content_type], array[headers],
    array[nullif(correlation_id, '')], array[nullif(partition_key, '')], array[hash],
    array[case when hash is not null then hash_algorithm end], array[due_at], array[expires_at],
    array[1::bigint],
    (select jsonb_agg(jsonb_build_object('key', h, 'legacy', '[]'::jsonb))::text from unnest(handlers) h)) b;
  return (array['accepted', 'duplicate_open', 'duplicate_done', 'duplicate_dead'])[answer + 1];
end $twinbox$;

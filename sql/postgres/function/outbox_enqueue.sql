-- A program in any language enqueues inside its own transaction: select infra.outbox_enqueue('topic', 'payload').
-- Answers the message's id, which is made here unless the caller gives one.

create or replace function {function:enqueue}(
  topic text, payload bytea, id text default null, correlation_id text default null,
  due_at timestamptz default null, partition_key text default null, headers text default null,
  content_type text default null, expires_at timestamptz default null)
returns text
language plpgsql as $twinbox$
declare
  message_id text := coalesce(id, gen_random_uuid()::text);
begin
  if btrim(coalesce(topic, '')) = '' or length(topic) > 255 then
    raise exception 'topic: must be 1 to 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if payload is null then
    raise exception 'payload: must not be null (it may be empty)' using errcode = 'invalid_parameter_value';
  end if;
  if btrim(message_id) = '' or length(message_id) > 255 then
    raise exception 'id: must be 1 to 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if length(correlation_id) > 255 then
    raise exception 'correlation_id: at most 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  if length(partition_key) > 255 then
    raise exception 'partition_key: at most 255 characters' using errcode = 'invalid_parameter_value';
  end if;
  perform {function:accept_batch}(
    array['-'], array[message_id], array[topic], array[payload], array[content_type], array[headers],
    array[nullif(correlation_id, '')], array[nullif(partition_key, '')], array[null::bytea], array[null::text],
    array[due_at], array[expires_at], array[1::bigint], '[{"key": "", "legacy": []}]');
  return message_id;
end $twinbox$;

create or replace function {function:enqueue}(topic text, payload text, id text default null)
returns text
language sql as $twinbox$
  select {function:enqueue}(topic, convert_to(payload, 'UTF8'), id)
$twinbox$;

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
  perform {function:check_text}('topic', topic, 255);
  perform {function:check_text}('id', message_id, 255);
  perform {function:check_extras}(payload, correlation_id, partition_key, headers);
  if content_type <> '' then
    perform {function:check_text}('content_type', content_type, 1000);
  end if;
  perform {function:accept_batch}(
    array['-'], array[message_id], array[topic], array[payload], array[content_type], array[headers],
    array[nullif(correlation_id, '')], array[nullif(partition_key, '')], array[null::bytea], array[null::text],
    array[due_at], array[expires_at], array[1::bigint], '[{"key": "", "legacy": []}]');
  return message_id;
end $twinbox$;

create or replace function {function:enqueue}(
  topic text, payload text, id text default null, correlation_id text default null,
  due_at timestamptz default null, partition_key text default null, headers text default null,
  content_type text default null, expires_at timestamptz default null)
returns text
language sql as $twinbox$
  select {function:enqueue}(topic, convert_to(payload, 'UTF8'), id, correlation_id, due_at, partition_key, headers,
                            content_type, expires_at)
$twinbox$;

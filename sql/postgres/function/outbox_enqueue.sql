-- A program in any language enqueues inside its own transaction: select id from infra.outbox_enqueue('topic',
-- 'payload'). Returns a row: the message's id, which is made here unless the caller gives one, whether it was known,
-- and whether it was known with another topic or payload. The first one is kept unchanged.
--
-- The form with bytes runs with the rights of the tables' owner, so that a role may only enqueue
-- (docs/contributing/decisions/enqueue_only.md). So it must not run code of the caller: names resolve in pg_catalog
-- alone. Every role may execute a new function until the right is revoked.

create or replace function {function:enqueue}(
  topic text, payload bytea, inout id text default null, correlation_id text default null,
  due_at timestamptz default null, partition_key text default null, headers text default null,
  content_type text default null, expires_at timestamptz default null,
  out duplicate boolean, out conflict boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $twinbox$
begin
  id := coalesce(id, gen_random_uuid()::text);
  perform {function:check_text}('topic', topic, 255);
  perform {function:check_text}('id', id, 255);
  perform {function:check_extras}(payload, correlation_id, partition_key, headers);
  if content_type <> '' then
    perform {function:check_text}('content_type', content_type, 1000);
  end if;
  select b.answer <> 0, b.conflict into duplicate, conflict from {function:accept_batch}(
    array['-'], array[id], array[topic], array[payload], array[content_type], array[headers],
    array[nullif(correlation_id, '')], array[nullif(partition_key, '')], array[null::bytea], array[null::text],
    array[due_at], array[expires_at], array[1::bigint], array[false],
    '[{"key": "", "legacy": []}]') b;
end $twinbox$;
revoke execute on function {function:enqueue}(text, bytea, text, text, timestamptz, text, text, text, timestamptz)
  from public;
comment on function {function:enqueue}(text, bytea, text, text, timestamptz, text, text, text, timestamptz) is
  'Enqueues a message in your transaction. Returns its id, and whether the id was known, and known with another content.';

create or replace function {function:enqueue}(
  topic text, payload text, inout id text default null, correlation_id text default null,
  due_at timestamptz default null, partition_key text default null, headers text default null,
  content_type text default null, expires_at timestamptz default null,
  out duplicate boolean, out conflict boolean)
language sql as $twinbox$
  select * from {function:enqueue}(topic, convert_to(payload, 'UTF8'), id, correlation_id, due_at, partition_key, headers,
                                   content_type, expires_at)
$twinbox$;
comment on function {function:enqueue}(text, text, text, text, timestamptz, text, text, text, timestamptz) is
  'Enqueues a message in your transaction. Returns its id, and whether the id was known, and known with another content.';

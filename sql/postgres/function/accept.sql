-- Accepts many messages at once; the library calls it inside a caller's transaction.

create or replace function {function:accept_batch}(
  sources text[], ids text[], topics text[], payloads bytea[], content_types text[], headers text[],
  correlation_ids text[], partition_keys text[], hashes bytea[], hash_algorithms text[], due_times timestamptz[],
  expiry_times timestamptz[], positions bigint[], replaces boolean[], handlers text, at timestamptz default null)
returns table ("position" bigint, answer int, conflict boolean)
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_source text[] := sources;
  p_id text[] := ids;
  p_topic text[] := topics;
  p_payload bytea[] := payloads;
  p_content_type text[] := content_types;
  p_headers text[] := headers;
  p_correlation_id text[] := correlation_ids;
  p_partition_key text[] := partition_keys;
  p_hash bytea[] := hashes;
  p_hash_algorithm text[] := hash_algorithms;
  p_due_at timestamptz[] := due_times;
  p_expires_at timestamptz[] := expiry_times;
  p_position bigint[] := positions;
  p_replaces boolean[] := replaces;
  p_handlers text := handlers;
  p_now timestamptz := at;
  one_snapshot boolean := current_setting('transaction_isolation') in ('repeatable read', 'serializable');
begin
  if one_snapshot and exists (select 1 from unnest(partition_keys) k where k is not null) then
    perform {function:refuse_isolation}('a message with a partition key');
  end if;
  {step:accept_1};
  -- A new message has no past that an old snapshot could miss. For a known message changed since the snapshot, or a
  -- pruned one that is still visible next to the new one, the decision would be wrong.
  if one_snapshot and (
    select count(*) <> cardinality(ids) or bool_or(m.seen_count > 1)
    from unnest(ids, sources) k(id, source)
    cross join lateral (
      select seen_count from {message} where id = k.id and source = k.source offset 0) m) then
    perform {function:refuse_isolation}('a message that is already known');
  end if;
  return query {step:accept_2};
end $twinbox$;
comment on function {function:accept_batch}(text[], text[], text[], bytea[], text[], text[], text[], text[],
  bytea[], text[], timestamptz[], timestamptz[], bigint[], boolean[], text, timestamptz) is
  'Internal: accepts many messages at once. The library calls it.';

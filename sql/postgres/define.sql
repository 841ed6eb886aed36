-- Definitions for the other files of this dialect.

-- The statement's clock, or the test's instant.
-- define: now
coalesce(@now::timestamptz, statement_timestamp())

-- Settings of a function: plans that do not depend on statistics.
-- define: planner
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan

-- The result of a claim by function.
-- define: claimed_table
table (
  delivery_id bigint, epoch int, handler text, attempts int, expiries int, requeues int, visible_at timestamptz,
  lease_until timestamptz, last_error text, source text, id text, topic text, payload bytea, content_type text,
  headers text, correlation_id text, partition_key text, hash bytea, hash_algorithm text, due_at timestamptz,
  expires_at timestamptz, created_at timestamptz, last_seen_at timestamptz, seen_count int, content_version int)

-- Notifies listeners once the transaction commits; always 0. A notification locks the whole server until its commit
-- is on disk, so notifying commits run one after the other. Of concurrent transactions two notify, and the polls that
-- follow a wake-up find the writes of the others. Each of the two slots is a lock that changes four times a second,
-- in turn: one open transaction that will notify blocks no notification, and two of them only briefly.
-- define: wake
case when current_setting('twinbox.notify', true) = 'off' then 0
  when pg_try_advisory_xact_lock(
         {wake_lock}::bigint # (date_part('epoch', statement_timestamp()) * 4)::bigint)
    or pg_try_advisory_xact_lock(
         {wake_other_lock}::bigint # (date_part('epoch', statement_timestamp()) * 4 + 0.5)::bigint)
  then length(pg_notify({wake_channel}, '')::text)
  else 0 end

-- The work queue for any language: claim, ack, abandon, fail, reap. The bodies are the library's own statements
-- (steps of the .sql files next to this folder), so the logic exists once; the settings keep the plans independent of
-- statistics.

-- The library's form of claim: a delivery without a message row is returned without one.
create or replace function {function:claim_batch}(
  owner uuid, lease bigint, batch_size bigint, visible_from timestamptz, at timestamptz)
returns {claimed_table}
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_owner uuid := owner;
  p_lease bigint := lease;
  p_limit bigint := batch_size;
  p_floor timestamptz := visible_from;
  p_now timestamptz := at;
begin
  return query {step:claim_1};
end $twinbox$;
comment on function {function:claim_batch}(uuid, bigint, bigint, timestamptz, timestamptz) is
  'Internal: claims deliveries. The library calls it.';

-- Deliveries without a message row are made dead after the others are returned; without others, it claims again.
create or replace function {function:claim}(
  owner uuid, lease interval, batch_size bigint, visible_from timestamptz default null, at timestamptz default null)
returns {claimed_table}
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_owner uuid := owner;
  p_lease bigint := extract(epoch from lease) * 1000000;
  p_limit bigint := batch_size;
  p_floor timestamptz := visible_from;
  p_now timestamptz := at;
  answered bigint;
  missing bigint[];
begin
  perform {function:check_owner}(p_owner);
  if coalesce(p_lease, 0) <= 0 then
    raise exception 'lease: must be longer than zero' using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(p_limit, 0) <= 0 then
    raise exception 'batch_size: must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  loop
    perform set_config('twinbox.missing', '', true);
    return query select c.* from {function:claim_batch}(p_owner, p_lease, p_limit, p_floor, p_now) c
    where case
      when c.id is not null then true
      else set_config('twinbox.missing', concat(current_setting('twinbox.missing'), c.delivery_id, ','), true) is null
    end;
    get diagnostics answered = row_count;
    exit when current_setting('twinbox.missing') = '';
    missing := string_to_array(rtrim(current_setting('twinbox.missing'), ','), ',')::bigint[];
    perform {function:fail_batch}(
      p_owner, missing, null, array_fill('the message row is gone'::text, array[cardinality(missing)]),
      'message_missing', false, false, p_now);
    exit when answered > 0;
  end loop;
end $twinbox$;
comment on function {function:claim}(uuid, interval, bigint, timestamptz, timestamptz) is
  'Leases due deliveries to an owner, oldest first. Returns them with their messages, delivery ids and epochs.';

create or replace function {function:ack}(
  owner uuid, ids bigint[], epochs int[] default null, at timestamptz default null)
returns bigint
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_owner uuid := owner;
  p_id bigint[] := ids;
  p_epoch int[] := epochs;
  p_check_epoch boolean := epochs is not null;
  p_now timestamptz := at;
  changed bigint;
begin
  perform {function:check_owner}(p_owner);
  perform {function:check_epochs}({table_text} || '_ack', p_id, p_epoch);
  {step:ack_1};
  get diagnostics changed = row_count;
  return changed;
end $twinbox$;
comment on function {function:ack}(uuid, bigint[], int[], timestamptz) is
  'Finishes leased deliveries as done. Returns how many.';

create or replace function {function:abandon}(
  owner uuid, ids bigint[], error text default null, delay interval default null, epochs int[] default null)
returns bigint
language plpgsql as $twinbox$
begin
  perform {function:check_owner}(owner);
  perform {function:check_epochs}({table_text} || '_abandon', ids, epochs);
  if delay <= interval '0' then
    raise exception 'delay: must be longer than zero' using errcode = 'invalid_parameter_value';
  end if;
  error := case when length(error) > 4000 then left(error, 3993) || '… (cut)' else error end;
  return {function:abandon_batch}(
    owner, ids, epochs, array_fill(nullif(error, ''), array[coalesce(cardinality(ids), 0)]),
    array_fill((extract(epoch from delay) * 1000000)::bigint, array[coalesce(cardinality(ids), 0)]),
    2000000, 60000000);
end $twinbox$;
comment on function {function:abandon}(uuid, bigint[], text, interval, int[]) is
  'Records a failed attempt of leased deliveries, which are retried after a delay. Returns how many.';

create or replace function {function:abandon_batch}(
  owner uuid, ids bigint[], epochs int[], errors text[], delays bigint[], first_delay bigint, max_delay bigint,
  at timestamptz default null)
returns bigint
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_owner uuid := owner;
  p_id bigint[] := ids;
  p_epoch int[] := epochs;
  p_check_epoch boolean := epochs is not null;
  p_error text[] := errors;
  p_delay bigint[] := delays;
  p_first_delay bigint := first_delay;
  p_max_delay bigint := max_delay;
  p_now timestamptz := at;
  changed bigint;
begin
  {step:abandon_1};
  get diagnostics changed = row_count;
  return changed;
end $twinbox$;
comment on function {function:abandon_batch}(uuid, bigint[], int[], text[], bigint[], bigint, bigint, timestamptz) is
  'Internal: abandons leased deliveries. The library calls it.';

create or replace function {function:fail}(
  owner uuid, ids bigint[], error text, reason text default 'failed', epochs int[] default null,
  hold_keys boolean default false)
returns bigint
language plpgsql as $twinbox$
begin
  perform {function:check_owner}(owner);
  perform {function:check_epochs}({table_text} || '_fail', ids, epochs);
  if error is null then
    raise exception 'error: must not be null (it may be empty)' using errcode = 'invalid_parameter_value';
  end if;
  error := case when length(error) > 4000 then left(error, 3993) || '… (cut)' else error end;
  return {function:fail_batch}(
    owner, ids, epochs, array_fill(nullif(error, ''), array[coalesce(cardinality(ids), 0)]), reason, true,
    coalesce(hold_keys, false));
end $twinbox$;
comment on function {function:fail}(uuid, bigint[], text, text, int[], boolean) is
  'Ends leased deliveries as dead letters. Returns how many.';

create or replace function {function:fail_batch}(
  owner uuid, ids bigint[], epochs int[], errors text[], reason text, counts boolean, hold_keys boolean default false,
  at timestamptz default null)
returns bigint
language plpgsql {planner} as $twinbox$
#variable_conflict use_column
declare
  p_owner uuid := owner;
  p_id bigint[] := ids;
  p_epoch int[] := epochs;
  p_check_epoch boolean := epochs is not null;
  p_error text[] := errors;
  p_reason text := reason;
  p_counts boolean := counts;
  p_hold_keys boolean := hold_keys;
  p_now timestamptz := at;
  changed bigint;
begin
  {step:fail_1};
  get diagnostics changed = row_count;
  return changed;
end $twinbox$;
comment on function {function:fail_batch}(uuid, bigint[], int[], text[], text, boolean, boolean, timestamptz) is
  'Internal: fails leased deliveries. The library calls it.';

-- Without a batch_size all of them, like the library's own reap().
create or replace function {function:reap}(
  batch_size bigint default 9223372036854775807, at timestamptz default null)
returns setof bigint
language plpgsql {planner} as $twinbox$
declare
  p_limit bigint := batch_size;
  p_now timestamptz := at;
begin
  if coalesce(p_limit, 0) <= 0 then
    raise exception 'batch_size: must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  return query {step:reap_1};
end $twinbox$;
comment on function {function:reap}(bigint, timestamptz) is
  'Releases deliveries whose leases have expired. Returns their delivery ids.';

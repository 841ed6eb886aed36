-- The bounds of arguments from any language, as the C++ types check them: characters are UTF-16 code units.

create or replace function {function:check_text}(noun text, value text, most int)
returns void
language plpgsql immutable as $twinbox$
begin
  if value is null or value !~ '\S' then
    raise exception '%: empty, 1 to % characters are needed', noun, most using errcode = 'invalid_parameter_value';
  end if;
  if length(value) * 2 > most
     and length(value) + length(regexp_replace(value, '[^\U00010000-\U0010FFFF]', '', 'g')) > most then
    raise exception '%: too long, at most % characters are allowed', noun, most
      using errcode = 'invalid_parameter_value';
  end if;
end $twinbox$;
comment on function {function:check_text}(text, text, int) is
  'Internal: refuses a text that is empty or too long.';

create or replace function {function:check_extras}(
  payload bytea, correlation_id text, partition_key text, headers text)
returns void
language plpgsql immutable as $twinbox$
begin
  if payload is null then
    raise exception 'payload: must not be null (it may be empty)' using errcode = 'invalid_parameter_value';
  end if;
  if correlation_id <> '' then
    perform {function:check_text}('correlation_id', correlation_id, 255);
  end if;
  if partition_key <> '' then
    perform {function:check_text}('partition_key', partition_key, 255);
  end if;
  if headers is not null then
    begin
      if json_typeof(headers::json) = 'object' then
        return;
      end if;
    exception when invalid_text_representation then
      null;
    end;
    raise exception 'headers: not a JSON object' using errcode = 'invalid_parameter_value';
  end if;
end $twinbox$;
comment on function {function:check_extras}(bytea, text, text, text) is
  'Internal: refuses a null payload, bad keys, and headers that are not a JSON object.';

create or replace function {function:check_owner}(owner uuid)
returns void
language plpgsql immutable as $twinbox$
begin
  if coalesce(owner, '00000000-0000-0000-0000-000000000000') = '00000000-0000-0000-0000-000000000000' then
    raise exception 'owner: must not be null or all zero' using errcode = 'invalid_parameter_value';
  end if;
end $twinbox$;
comment on function {function:check_owner}(uuid) is
  'Internal: refuses an owner that is null or all zero.';

create or replace function {function:check_epochs}(called text, ids bigint[], epochs int[])
returns void
language plpgsql immutable as $twinbox$
begin
  if cardinality(epochs) <> coalesce(cardinality(ids), 0) then
    raise exception '%: ids has % elements and epochs has %; pass one epoch for each id', called,
      coalesce(cardinality(ids), 0), cardinality(epochs) using errcode = 'invalid_parameter_value';
  end if;
end $twinbox$;
comment on function {function:check_epochs}(text, bigint[], int[]) is
  'Internal: refuses epochs that are not one for each id.';

-- A second read after a lock needs a new snapshot, which these levels never take.
create or replace function {function:refuse_isolation}(what text)
returns void
language plpgsql as $twinbox$
begin
  raise exception '% cannot be written in a % transaction: use read committed', what,
    current_setting('transaction_isolation') using errcode = 'invalid_transaction_state';
end $twinbox$;
comment on function {function:refuse_isolation}(text) is
  'Internal: refuses calls that need read committed.';

-- The server's own rule at the commit for waiting for a standby. Later changes of the settings are not seen.
create or replace function {function:require_synchronous}()
returns void
language plpgsql as $twinbox$
begin
  if current_setting('synchronous_standby_names') = '' or current_setting('max_wal_senders') = '0' then
    raise exception 'synchronous_standby_names is empty, so a commit waits for no standby'
      using errcode = 'TB001',
            hint = 'Name a standby in synchronous_standby_names, or set require_synchronous to false.';
  elsif current_setting('synchronous_commit') in ('off', 'local') then
    raise exception 'synchronous_commit is %, so this commit waits for no standby', current_setting('synchronous_commit')
      using errcode = 'TB001',
            hint = 'Set synchronous_commit to on for this role and transaction, or require_synchronous to false.';
  end if;
end $twinbox$;
comment on function {function:require_synchronous}() is
  'Internal: refuses a transaction whose commit waits for no standby.';

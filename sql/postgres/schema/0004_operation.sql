-- What a person does has an id, so that it can be asked for again: an action that was cut off goes on where it stopped.
-- A row without one was written before, or by a caller who gave none.
alter table {audit}
  add column operation_id     text collate "C",
  add column content_hash     bytea,                          -- of what was asked for: another action under the id is refused
  add column started_at       timestamptz,
  add column finished         boolean not null default true,
  add column position_number  bigint,                         -- the last delivery that was looked at
  add column position_handler text collate "C";

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;

-- The dispatchers that work on the box, as they tell of themselves; room in the page keeps every update HOT.
create table {worker} (
  owner      uuid primary key,
  name       text not null,
  version    text not null,
  started_at timestamptz not null,
  seen_at    timestamptz not null
) with (fillfactor = 50);

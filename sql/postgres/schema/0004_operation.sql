-- An operation has an id, so that it can be repeated: an interrupted one continues where it stopped. Older rows, and
-- calls without an id, have none.
alter table {audit}
  add column operation_id     text collate "C",
  add column content_hash     bytea,                          -- of the request: another operation under the id is refused
  add column started_at       timestamptz,
  add column finished         boolean not null default true,
  add column position_number  bigint,                         -- the last processed delivery
  add column position_handler text collate "C";

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;

-- The dispatchers of the box, by their heartbeats; room in the page keeps every update HOT.
create table {worker} (
  owner      uuid primary key,
  name       text not null,
  version    text not null,
  started_at timestamptz not null,
  seen_at    timestamptz not null
) with (fillfactor = 50);

-- An operation has an id, so that it can be repeated: an interrupted one continues where it stopped. Older rows, and
-- calls without an id, have none. The table is created again: an added column would come after the payload, and
-- reading it would read the payload's pages as well.
alter table {audit} rename to {name:audit_before};

create table {audit} (
  id               integer primary key autoincrement,
  done_at          integer not null,
  number           integer,
  affected         integer not null,
  content_version  integer,
  action              text not null,
  actor            text,
  reason           text,
  operation_id     text,
  content_hash     blob,                         -- of the request: another operation under the id is refused
  started_at       integer,
  finished         integer not null default 1,
  position_number  integer,                      -- the last processed delivery
  position_handler text,
  headers          text,
  payload          blob
);

insert into {audit} (id, done_at, number, affected, content_version, action, actor, reason, headers, payload)
select id, done_at, number, affected, content_version, action, actor, reason, headers, payload
from {name:audit_before} order by id;

drop table {name:audit_before};

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;

-- The dispatchers of the box, by their heartbeats.
create table {worker} (
  owner      blob primary key,
  name       text not null,
  version    text not null,
  started_at integer not null,
  seen_at    integer not null
) without rowid;

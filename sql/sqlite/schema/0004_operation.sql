-- What a person does has an id, so that it can be asked for again: an action that was cut off goes on where it stopped.
-- A row without one was written before, or by a caller who gave none. The table is made anew: a column that was added
-- would stand behind the payload, and whoever reads it would read the payload's pages as well.
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
  content_hash     blob,                         -- of what was asked for: another action under the id is refused
  started_at       integer,
  finished         integer not null default 1,
  position_number  integer,                      -- the last delivery that was looked at
  position_handler text,
  headers          text,
  payload          blob
);

insert into {audit} (id, done_at, number, affected, content_version, action, actor, reason, headers, payload)
select id, done_at, number, affected, content_version, action, actor, reason, headers, payload
from {name:audit_before} order by id;

drop table {name:audit_before};

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;

-- The dispatchers that work on the box, as they tell of themselves.
create table {worker} (
  owner      blob primary key,
  name       text not null,
  version    text not null,
  started_at integer not null,
  seen_at    integer not null
) without rowid;

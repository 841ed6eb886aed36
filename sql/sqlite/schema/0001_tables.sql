-- A message is immutable, a delivery is open work, an outcome is immutable again. Instants are microseconds since
-- 1970, owners 16 bytes. AUTOINCREMENT: a plain rowid starts again at 1 in an empty table, and a DeliveryId must
-- never be used twice.

create table {message} (
  number          integer primary key autoincrement,
  created_at      integer not null,
  last_seen_at    integer not null,
  due_at          integer,
  expires_at      integer,
  seen_count      integer not null default 1,
  content_version integer not null default 0,
  source          text not null,
  id              text not null,
  topic           text,
  content_type    text,
  headers         text,
  correlation_id  text,
  partition_key   text,
  hash            blob,
  hash_algorithm  text,
  payload         blob
);

-- id comes first so that calls without a source find their message, too.
create unique index {name:message_key} on {message} (id, source);

create table {work} (
  id            integer primary key autoincrement,
  number        integer not null,
  visible_at    integer not null,
  lease_until   integer,
  expires_at    integer,
  owner         blob,
  epoch         integer not null default 0,
  attempts      integer not null default 0,
  expiries      integer not null default 0,
  requeues      integer not null default 0,
  waiting       integer not null default 0,
  handler       text not null default '',
  partition_key text,
  last_error    text
);

create unique index {name:work_delivery} on {work} (number, handler);
create index {name:work_visible} on {work} (visible_at) where waiting = 0;
create index {name:work_partition} on {work} (partition_key, handler, id) where partition_key is not null;
create index {name:work_expiry} on {work} (expires_at) where expires_at is not null;

create table {outcome} (
  number      integer not null,
  delivery_id     integer,
  finished_at integer not null,
  finished_by blob,
  attempts    integer not null default 0,
  expiries    integer not null default 0,
  requeues    integer not null default 0,
  state       integer not null,          -- 1 done, 2 dead, 3 discarded, 4 marked
  handler     text not null default '',
  reason      text,
  last_error  text,
  primary key (number, handler)
) without rowid;

create index {name:outcome_dead} on {outcome} (number, handler) where state = 2;

create table {failure} (
  id        integer primary key autoincrement,
  number    integer not null,
  delivery_id   integer,
  failed_at integer not null,
  worker    blob,
  attempt   integer not null,
  handler   text not null,
  error     text
);

create index {name:failure_message} on {failure} (number);

create table {audit} (
  id              integer primary key autoincrement,
  done_at         integer not null,
  number          integer,
  affected        integer not null,
  content_version integer,
  action             text not null,
  actor           text,
  reason          text,
  headers         text,
  payload         blob
);

-- Removing the head of a key releases the next delivery. One writer at a time: no lock is needed.
create trigger {name:work_promote} after delete on {work} when old.partition_key is not null
begin
  update {work} set waiting = 0
  where waiting = 1 and id = (
    select id from {work} where partition_key = old.partition_key and handler = old.handler
    order by id limit 1);
end;

-- A message is immutable, a delivery is open work, an outcome is immutable again. Text that is compared is compared
-- byte by byte (collation C). Deliveries and outcomes refer to a message by number, without foreign keys.

create table {message} (
  number          bigint generated always as identity primary key,
  created_at      timestamptz not null,
  last_seen_at    timestamptz not null,
  due_at          timestamptz,
  expires_at      timestamptz,
  seen_count      int not null default 1,
  content_version int not null default 0,
  source          text collate "C" not null,
  id              text collate "C" not null,
  topic           text collate "C",
  content_type    text,
  headers         text,
  correlation_id  text collate "C",
  partition_key   text collate "C",
  hash            bytea,
  hash_algorithm  text,
  payload         bytea
);

-- id comes first so that calls without a source find their message, too.
create unique index {name:message_key} on {message} (id, source);

-- Claim changes only columns without an index; with half a page free every claim is a HOT update.
create table {work} (
  id            bigint generated always as identity primary key,
  number        bigint not null,
  visible_at    timestamptz not null,
  lease_until   timestamptz,
  expires_at    timestamptz,
  owner         uuid,
  epoch         int not null default 0,
  attempts      int not null default 0,
  expiries      int not null default 0,
  requeues      int not null default 0,
  waiting       boolean not null default false,
  handler       text collate "C" not null default '',
  partition_key text collate "C",
  last_error    text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

create unique index {name:work_delivery} on {work} (number, handler);
create index {name:work_visible} on {work} (visible_at) where not waiting;
create index {name:work_partition} on {work} (partition_key, handler, id) where partition_key is not null;
create index {name:work_expiry} on {work} (expires_at) where expires_at is not null;

create table {outcome} (
  number      bigint not null,
  delivery_id     bigint,
  finished_at timestamptz not null,
  finished_by uuid,
  attempts    int not null default 0,
  expiries    int not null default 0,
  requeues    int not null default 0,
  state       smallint not null,          -- 1 done, 2 dead, 3 discarded, 4 marked
  handler     text collate "C" not null default '',
  reason      text,
  last_error  text,
  primary key (number, handler)
);

create index {name:outcome_dead} on {outcome} (number, handler) where state = 2;

create table {failure} (
  id        bigint generated always as identity primary key,
  number    bigint not null,
  delivery_id   bigint,
  failed_at timestamptz not null,
  worker    uuid,
  attempt   int not null,
  handler   text collate "C" not null,
  error     text
);

create index {name:failure_message} on {failure} (number);

create table {audit} (
  id              bigint generated always as identity primary key,
  done_at         timestamptz not null,
  number          bigint,
  affected        bigint not null,
  content_version int,
  action             text not null,
  actor           text,
  reason          text,
  headers         text,
  payload         bytea
);

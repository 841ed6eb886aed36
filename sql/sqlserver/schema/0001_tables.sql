-- A message is immutable, a delivery is open work, an outcome is immutable again. Text that is compared is compared
-- byte by byte (a binary collation). Deliveries and outcomes refer to a message by number, without foreign keys.
-- Instants are UTC. A line "go" ends a batch.

create table {message} (
  number          bigint identity(1, 1) not null primary key,
  created_at      datetime2(6) not null,
  last_seen_at    datetime2(6) not null,
  due_at          datetime2(6),
  expires_at      datetime2(6),
  seen_count      int not null default 1,
  content_version int not null default 0,
  source          nvarchar(255) {binary} not null,
  id              nvarchar(256) {binary} not null,
  topic           nvarchar(500) {binary},
  content_type    nvarchar(1000),
  headers         nvarchar(max),
  correlation_id  nvarchar(255) {binary},
  partition_key   nvarchar(255) {binary},
  hash            varbinary(max),
  hash_algorithm  nvarchar(255),
  payload         varbinary(max)
);
go

-- id comes first so that calls without a source find their message, too.
create unique index {name:message_key} on {message} (id, source);
go

create table {work} (
  id            bigint identity(1, 1) not null primary key,
  number        bigint not null,
  visible_at    datetime2(6) not null,
  lease_until   datetime2(6),
  expires_at    datetime2(6),
  owner         uniqueidentifier,
  epoch         int not null default 0,
  attempts      int not null default 0,
  expiries      int not null default 0,
  requeues      int not null default 0,
  waiting       bit not null default 0,
  handler       nvarchar(200) {binary} not null default N'',
  partition_key nvarchar(255) {binary},
  last_error    nvarchar(max)
);
go

create unique index {name:work_delivery} on {work} (number, handler);
go

-- Claim changes only columns without an index.
create index {name:work_visible} on {work} (waiting, visible_at, id);
go

create index {name:work_partition} on {work} (partition_key, handler, id) where partition_key is not null;
go

create index {name:work_expiry} on {work} (expires_at) where expires_at is not null;
go

create table {outcome} (
  number      bigint not null,
  delivery_id     bigint,
  finished_at datetime2(6) not null,
  finished_by uniqueidentifier,
  attempts    int not null default 0,
  expiries    int not null default 0,
  requeues    int not null default 0,
  state       smallint not null,          -- 1 done, 2 dead, 3 discarded, 4 marked
  handler     nvarchar(200) {binary} not null default N'',
  reason      nvarchar(max),
  last_error  nvarchar(max),
  primary key (number, handler)
);
go

create index {name:outcome_dead} on {outcome} (number, handler) where state = 2;
go

create table {failure} (
  id        bigint identity(1, 1) not null primary key,
  number    bigint not null,
  delivery_id   bigint,
  failed_at datetime2(6) not null,
  worker    uniqueidentifier,
  attempt   int not null,
  handler   nvarchar(200) {binary} not null,
  error     nvarchar(max)
);
go

create index {name:failure_message} on {failure} (number);
go

create table {audit} (
  id              bigint identity(1, 1) not null primary key,
  done_at         datetime2(6) not null,
  number          bigint,
  affected        bigint not null,
  content_version int,
  action             nvarchar(255) not null,
  actor           nvarchar(255),
  reason          nvarchar(max),
  headers         nvarchar(max),
  payload         varbinary(max)
);
go

-- Removing the head of a partition key releases the next delivery, under the lock that accept takes for the key. A
-- trigger, so that every way of removing a delivery does it.
create trigger {function:work_promote} on {work} after delete as
begin
  set nocount on;
  if not exists (select 1 from deleted where partition_key is not null) return;
  {keys}
  insert into @keys (partition_key) select partition_key from deleted where partition_key is not null;
  {lock_keys}
  update {work} set waiting = 0
  where waiting = 1 and id in (
    select (select top (1) n.id from {work} n
            where n.partition_key = d.partition_key and n.handler = d.handler order by n.id)
    from deleted d where d.partition_key is not null);
end;
go

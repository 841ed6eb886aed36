-- An operation has an id, so that it can be repeated: an interrupted one continues where it stopped. Older rows, and
-- calls without an id, have none.
alter table {audit} add operation_id nvarchar(200) {binary};
go

-- Of the request: another operation under the id is refused.
alter table {audit} add content_hash varbinary(32);
go

alter table {audit} add started_at datetime2(6);
go

alter table {audit} add finished bit not null default 1;
go

-- The last processed delivery.
alter table {audit} add position_number bigint;
go

alter table {audit} add position_handler nvarchar(200) {binary};
go

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;
go

-- The dispatchers of the box, by their heartbeats.
create table {worker} (
  owner      uniqueidentifier not null primary key,
  name       nvarchar(max) not null,
  version    nvarchar(255) not null,
  started_at datetime2(6) not null,
  seen_at    datetime2(6) not null
);
go

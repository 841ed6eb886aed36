-- What a person does has an id, so that it can be asked for again: an action that was cut off goes on where it stopped.
-- A row without one was written before, or by a caller who gave none.
alter table {audit} add operation_id nvarchar(200) {binary};
go

-- Of what was asked for: another action under the id is refused.
alter table {audit} add content_hash varbinary(32);
go

alter table {audit} add started_at datetime2(6);
go

alter table {audit} add finished bit not null default 1;
go

-- The last delivery that was looked at.
alter table {audit} add position_number bigint;
go

alter table {audit} add position_handler nvarchar(200) {binary};
go

create unique index {name:audit_operation} on {audit} (operation_id) where operation_id is not null;
go

-- The dispatchers that work on the box, as they tell of themselves.
create table {worker} (
  owner      uniqueidentifier not null primary key,
  name       nvarchar(max) not null,
  version    nvarchar(255) not null,
  started_at datetime2(6) not null,
  seen_at    datetime2(6) not null
);
go

-- Named leases. A row stays when it is not held, so that its epoch only grows.
create table {named_lease} (
  name        nvarchar(300) {binary} not null primary key,
  owner       uniqueidentifier,
  epoch       bigint not null,
  lease_until datetime2(6) not null
);
go

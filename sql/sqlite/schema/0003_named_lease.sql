-- Named leases. A row stays when it is not held, so that its epoch only grows.
create table {named_lease} (
  name        text primary key,
  owner       blob,
  epoch       integer not null,
  lease_until integer not null
) without rowid;

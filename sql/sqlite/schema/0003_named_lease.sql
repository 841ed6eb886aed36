-- Who may do what only one may do. A row stays when nobody holds it, so that its epoch only grows.
create table {named_lease} (
  name        text primary key,
  owner       blob,
  epoch       integer not null,
  lease_until integer not null
) without rowid;

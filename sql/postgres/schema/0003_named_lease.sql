-- Named leases. A row stays when it is not held, so that its epoch only grows; room in the page keeps every renewal a
-- HOT update.
create table {named_lease} (
  name        text collate "C" primary key,
  owner       uuid,
  epoch       bigint not null,
  lease_until timestamptz not null
) with (fillfactor = 50);

-- The deliveries that a worker has finished and failed since it started: a view of a box shows all workers.
alter table {worker}
  add column done   bigint not null default 0,
  add column failed bigint not null default 0;

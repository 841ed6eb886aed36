-- The deliveries that a worker has finished and failed since it started: a view of a box shows all workers.
alter table {worker} add column done integer not null default 0;
alter table {worker} add column failed integer not null default 0;

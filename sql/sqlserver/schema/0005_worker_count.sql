-- The deliveries that a worker has finished and failed since it started: a view of a box shows all workers.
alter table {worker} add done bigint not null default 0;
go

alter table {worker} add failed bigint not null default 0;
go

-- What a worker has finished and failed since it started: whoever looks at a box sees what all of them do.
alter table {worker} add done bigint not null default 0;
go

alter table {worker} add failed bigint not null default 0;
go

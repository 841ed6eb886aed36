-- When the counts of a worker had last grown: a box whose workers finish nothing is stalled.
alter table {worker} add progress_at datetime2(6);
go

create index {name:worker_progress} on {worker} (progress_at);
go

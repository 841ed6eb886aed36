-- When the counts of a worker had last grown: a box whose workers finish nothing is stalled.
alter table {worker} add column progress_at integer;
create index {name:worker_progress} on {worker} (progress_at);

-- What a worker has finished and failed since it started: whoever looks at a box sees what all of them do.
alter table {worker} add column done integer not null default 0;
alter table {worker} add column failed integer not null default 0;

-- Which handler keys and topics a worker handles, and until when its word counts: what another version cannot handle is
-- left to it.
alter table {worker} add live_until datetime2(6);
go

alter table {worker} add handles nvarchar(max);
go

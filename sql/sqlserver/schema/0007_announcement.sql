-- The handler keys and topics of a worker, and until when the announcement is valid: other versions leave those
-- deliveries to it.
alter table {worker} add live_until datetime2(6);
go

alter table {worker} add handles nvarchar(max);
go

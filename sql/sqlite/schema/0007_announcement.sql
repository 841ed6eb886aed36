-- The handler keys and topics of a worker, and until when the announcement is valid: other versions leave those
-- deliveries to it.
alter table {worker} add column live_until integer;
alter table {worker} add column handles text;

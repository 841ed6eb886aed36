-- The handler keys and topics of a worker, and until when the announcement is valid: other versions leave those
-- deliveries to it.
alter table {worker}
  add column live_until timestamptz,
  add column handles    text;

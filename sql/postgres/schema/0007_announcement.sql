-- Which handler keys and topics a worker handles, and until when its word counts: what another version cannot handle is
-- left to it.
alter table {worker}
  add column live_until timestamptz,
  add column handles    text;

-- One row per message, with the columns and the states of the outbox document; a message with several deliveries
-- shows the most urgent one: open, then dead, then done. Instants are shown as text in UTC, owners in hexadecimal.

create view {box} as
select
  coalesce(w.id, o.delivery_id) as Id,
  m.topic as Topic,
  m.payload as Payload,
  strftime('%Y-%m-%d %H:%M:%f', m.created_at / 1000000.0, 'unixepoch') as CreatedAt,
  case
    when w.lease_until is not null or o.state = 4 then 1
    when w.id is not null or o.state is null then 0
    when o.state = 2 then 3
    else 2
  end as Status,
  strftime('%Y-%m-%d %H:%M:%f', w.lease_until / 1000000.0, 'unixepoch') as LockedUntil,
  nullif(hex(w.owner), '') as OwnerToken,
  coalesce(o.state, 0) in (1, 3) as IsProcessed,
  case when o.state in (1, 3) then strftime('%Y-%m-%d %H:%M:%f', o.finished_at / 1000000.0, 'unixepoch') end as ProcessedAt,
  case when o.state in (1, 3) then nullif(hex(o.finished_by), '') end as ProcessedBy,
  coalesce(w.attempts, o.attempts, 0) as RetryCount,
  coalesce(w.last_error, o.last_error) as LastError,
  strftime('%Y-%m-%d %H:%M:%f', coalesce(w.visible_at, m.due_at, m.created_at) / 1000000.0, 'unixepoch') as NextAttemptAt,
  m.id as MessageId,
  m.correlation_id as CorrelationId,
  strftime('%Y-%m-%d %H:%M:%f', m.due_at / 1000000.0, 'unixepoch') as DueTimeUtc
from {message} m
left join {work} w on w.id = (
  select id from {work} d where d.number = m.number order by d.visible_at, d.id limit 1)
left join {outcome} o on w.id is null and o.number = m.number and o.handler = (
  select handler from {outcome} d where d.number = m.number
  order by case d.state when 4 then 0 when 2 then 1 when 1 then 2 else 3 end, d.handler limit 1);

-- One row per message, with the columns and the states of the inbox document; a message with several deliveries shows
-- the most urgent one: open, then dead, then done. Instants are shown as text in UTC, owners in hexadecimal.

create view {box} as
select
  m.source as Source,
  m.id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  strftime('%Y-%m-%d %H:%M:%f', m.created_at / 1000000.0, 'unixepoch') as FirstSeenUtc,
  strftime('%Y-%m-%d %H:%M:%f', m.last_seen_at / 1000000.0, 'unixepoch') as LastSeenUtc,
  case
    when w.id is not null or o.state = 4 then 'Processing'
    when o.state = 2 then 'Dead'
    when o.state is not null then 'Done'
    else 'Seen'
  end as Status,
  strftime('%Y-%m-%d %H:%M:%f', w.lease_until / 1000000.0, 'unixepoch') as LockedUntil,
  nullif(hex(w.owner), '') as OwnerToken,
  coalesce(w.attempts, o.attempts, 0) as Attempt,
  coalesce(w.last_error, o.last_error) as LastError,
  strftime('%Y-%m-%d %H:%M:%f', coalesce(w.visible_at, m.due_at, m.created_at) / 1000000.0, 'unixepoch') as NextAttemptAt,
  strftime('%Y-%m-%d %H:%M:%f', m.due_at / 1000000.0, 'unixepoch') as DueTimeUtc
from {message} m
left join {work} w on w.id = (
  select id from {work} d where d.number = m.number order by d.visible_at, d.id limit 1)
left join {outcome} o on w.id is null and o.number = m.number and o.handler = (
  select handler from {outcome} d where d.number = m.number
  order by case d.state when 4 then 0 when 2 then 1 when 1 then 2 else 3 end, d.handler limit 1);

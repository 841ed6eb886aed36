-- One row per message, with the columns and the states of the inbox document; a message with several deliveries shows
-- the most urgent one: open, then dead, then done. Names are not quoted, so they can be written in any case.

create view {box} as
select
  m.source as Source,
  m.id as MessageId,
  m.topic as Topic,
  m.payload as Payload,
  m.hash as Hash,
  m.created_at as FirstSeenUtc,
  m.last_seen_at as LastSeenUtc,
  case
    when w.id is not null or o.state = 4 then 'Processing'
    when o.state = 2 then 'Dead'
    when o.state is not null then 'Done'
    else 'Seen'
  end as Status,
  w.lease_until as LockedUntil,
  w.owner as OwnerToken,
  coalesce(w.attempts, o.attempts, 0) as Attempt,
  coalesce(w.last_error, o.last_error) as LastError,
  coalesce(w.visible_at, m.due_at, m.created_at) as NextAttemptAt,
  m.due_at as DueTimeUtc
from {message} m
left join lateral (
  select * from {work} d where d.number = m.number order by d.visible_at, d.id limit 1
) w on true
left join lateral (
  select * from {outcome} d where d.number = m.number
  order by case d.state when 4 then 0 when 2 then 1 when 1 then 2 else 3 end, d.handler limit 1
) o on w.id is null;

-- One row per message, with the columns and the states of the outbox document; a message with several deliveries
-- shows the most urgent one: open, then dead, then done. Names are not quoted, so they can be written in any case.

create view {box} as
select
  coalesce(w.id, o.delivery_id) as Id,
  m.topic as Topic,
  m.payload as Payload,
  m.created_at as CreatedAt,
  case
    when w.lease_until is not null or o.state = 4 then 1
    when w.id is not null or o.state is null then 0
    when o.state = 2 then 3
    else 2
  end as Status,
  w.lease_until as LockedUntil,
  w.owner as OwnerToken,
  coalesce(o.state, 0) in (1, 3) as IsProcessed,
  case when o.state in (1, 3) then o.finished_at end as ProcessedAt,
  case when o.state in (1, 3) then o.finished_by::text end as ProcessedBy,
  coalesce(w.attempts, o.attempts, 0) as RetryCount,
  coalesce(w.last_error, o.last_error) as LastError,
  coalesce(w.visible_at, m.due_at, m.created_at) as NextAttemptAt,
  m.id as MessageId,
  m.correlation_id as CorrelationId,
  m.due_at as DueTimeUtc
from {message} m
left join lateral (
  select * from {work} d where d.number = m.number order by d.visible_at, d.id limit 1
) w on true
left join lateral (
  select * from {outcome} d where d.number = m.number
  order by case d.state when 4 then 0 when 2 then 1 when 1 then 2 else 3 end, d.handler limit 1
) o on w.id is null;

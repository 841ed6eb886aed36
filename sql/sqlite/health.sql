-- The queries of a probe, run every few seconds: counts are bounded, by index ranges.

-- name: health
select
  (select count(*) from (
    select 1 from {work} where waiting = 0 and visible_at <= {now}
    order by visible_at limit @pending)) as due,
  (select count(*) from (
    select 1 from (
      select waiting, visible_at from {work} where partition_key is not null
      order by partition_key, handler, id limit @probe)
    where waiting = 1 and visible_at <= {now} limit @pending)) as waiting,
  (select count(*) from (
    select 1 from {outcome} where state = 2 order by number, handler limit @dead)) as dead,
  (select count(*) from (
    select 1 from {hold} where requeued = 0 order by number, handler limit @held)) as held,
  (select count(*) from (
    select 1 from (
      select partition_key, handler from {work} where waiting = 0 and visible_at > {now} + @far
      order by visible_at desc limit @probe) d
    where d.partition_key is not null and exists (
      select 1 from {work} w where w.partition_key = d.partition_key and w.handler = d.handler and w.waiting = 1)
    limit @held)) as blocked,
  (select count(*) from (
    select 1 from {work} where waiting = 0 and visible_at <= {now} - @stalled
    order by visible_at limit 1)
   where not exists (select 1 from {worker} where name <> '' and progress_at > {now} - @stalled)) as stalled;

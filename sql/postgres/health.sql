-- The queries of a probe, run every few seconds: counts are bounded, by index ranges that the order forces whatever
-- the statistics say.

-- name: health
select
  (select count(*) from (
    select 1 from {work} where not waiting and visible_at <= {now}
    order by visible_at limit @pending::bigint) due) as due,
  (select count(*) from (
    select 1 from (
      select waiting, visible_at from {work} where partition_key is not null
      order by partition_key, handler, id limit @probe::bigint) keyed
    where waiting and visible_at <= {now} limit @pending::bigint) behind) as waiting,
  (select count(*) from (
    select 1 from {outcome} where state = 2 order by number, handler limit @dead::bigint) lost) as dead,
  (select count(*) from (
    select 1 from {hold} where not requeued order by number, handler limit @held::bigint) held) as held,
  (select count(*) from (
    select 1 from (
      select partition_key, handler from {work}
      where not waiting and visible_at > {now} + @far::bigint * interval '1 microsecond'
      order by visible_at desc limit @probe::bigint) d
    where d.partition_key is not null and exists (
      select 1 from {work} w where w.partition_key = d.partition_key and w.handler = d.handler and w.waiting)
    limit @held::bigint) blocked) as blocked,
  (select count(*) from (
    select 1 from {work} where not waiting and visible_at <= {now} - @stalled::bigint * interval '1 microsecond'
    order by visible_at limit 1) late
   where not exists (
     select 1 from {worker}
     where name <> '' and progress_at > {now} - @stalled::bigint * interval '1 microsecond')) as stalled;

-- The queries of a probe, run every few seconds: counts are bounded, by index ranges.

-- name: health
select
  (select count(*) from (
    select top (@pending) w.id from {work} w where w.waiting = 0 and w.visible_at <= {now}
    order by w.visible_at) as due) as due,
  (select count(*) from (
    select top (@pending) k.id from (
      select top (@probe) w.id, w.waiting, w.visible_at from {work} w where w.partition_key is not null
      order by w.partition_key, w.handler, w.id) as k
    where k.waiting = 1 and k.visible_at <= {now}) as behind) as waiting,
  (select count(*) from (
    select top (@dead) o.number from {outcome} o where o.state = 2 order by o.number, o.handler) as lost) as dead,
  (select count(*) from (
    select top (@held) h.number from {hold} h where h.requeued = 0 order by h.number, h.handler) as held) as held,
  (select count(*) from (
    select top (@held) d.id from (
      select top (@probe) w.id, w.partition_key, w.handler from {work} w
      where w.waiting = 0 and w.visible_at > dateadd(second, cast(@far / 1000000 as int), {now})
      order by w.visible_at desc) as d
    where d.partition_key is not null and exists (
      select 1 from {work} b where b.partition_key = d.partition_key and b.handler = d.handler and b.waiting = 1)) as blocked
  ) as blocked,
  (select count(*) from (
    select top (1) w.id from {work} w
    where w.waiting = 0 and w.visible_at <= dateadd(second, -cast(@stalled / 1000000 as int), {now})
    order by w.visible_at) as late
   where not exists (
     select 1 from {worker} k
     where k.name <> '' and k.progress_at > dateadd(second, -cast(@stalled / 1000000 as int), {now}))) as stalled;

-- The workers of a box.

-- name: worker_heartbeat
declare @until datetime2(6) = dateadd(microsecond, cast(@lives % 1000000 as int),
                                      dateadd(second, cast(@lives / 1000000 as int), {now}));
{once}
update {worker}
set progress_at = case when @done + @failed > done + failed then {now} else progress_at end, name = @name, seen_at = {now}, done = @done, failed = @failed, live_until = @until, handles = @handles
where owner = @owner;
insert into {worker} (owner, name, version, started_at, seen_at, done, failed, live_until, handles, progress_at)
select @owner, @name, @version, {now}, {now}, @done, @failed, @until, @handles,
       case when @done + @failed > 0 then {now} end
where not exists (select 1 from {worker} w where w.owner = @owner);
{end_retry}

-- A worker that has left has no name. Its announcement counts until it lapses, because a new replica may be restarting.
-- name: worker_leave
update {worker} set name = '' where owner = @owner;

-- Workers that were not seen for long, and those that have left once their announcement has lapsed.
-- name: worker_forget
delete from {worker}
output deleted.owner as owner
where seen_at <= dateadd(microsecond, -cast(@unseen % 1000000 as int),
                         dateadd(second, -cast(@unseen / 1000000 as int), {now}))
   or (name = '' and live_until <= {now});

-- The announcements of live workers, except @owner; mostly the same.
-- name: worker_handles
select distinct handles from {worker} where owner <> @owner and live_until > {now} and handles is not null;

-- name: worker_list
select top (@limit) owner, name, version, started_at, seen_at, done, failed from {worker}
where name <> '' order by seen_at desc, owner;

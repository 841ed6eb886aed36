-- Who works on a box.

-- name: worker_tell
declare @until datetime2(6) = dateadd(microsecond, cast(@lives % 1000000 as int),
                                      dateadd(second, cast(@lives / 1000000 as int), {now}));
{once}
update {worker} set seen_at = {now}, done = @done, failed = @failed, live_until = @until, handles = @handles
where owner = @owner;
insert into {worker} (owner, name, version, started_at, seen_at, done, failed, live_until, handles)
select @owner, @name, @version, {now}, {now}, @done, @failed, @until, @handles
where not exists (select 1 from {worker} w where w.owner = @owner);
{or_again}

-- name: worker_leave
delete from {worker} where owner = @owner;

-- name: worker_forget
delete from {worker}
output deleted.owner as owner
where seen_at <= dateadd(microsecond, -cast(@unseen % 1000000 as int),
                         dateadd(second, -cast(@unseen / 1000000 as int), {now}));

-- What live workers handle, all but @owner; mostly the same.
-- name: worker_handles
select distinct handles from {worker} where owner <> @owner and live_until > {now} and handles is not null;

-- name: worker_list
select top (@limit) owner, name, version, started_at, seen_at, done, failed from {worker} order by seen_at desc, owner;

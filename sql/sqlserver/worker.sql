-- Who works on a box.

-- name: worker_tell
{once}
update {worker} set seen_at = {now}, done = @done, failed = @failed where owner = @owner;
insert into {worker} (owner, name, version, started_at, seen_at, done, failed)
select @owner, @name, @version, {now}, {now}, @done, @failed
where not exists (select 1 from {worker} w where w.owner = @owner);
{or_again}

-- name: worker_leave
delete from {worker} where owner = @owner;

-- name: worker_forget
delete from {worker}
output deleted.owner as owner
where seen_at <= dateadd(microsecond, -cast(@unseen % 1000000 as int),
                         dateadd(second, -cast(@unseen / 1000000 as int), {now}));

-- name: worker_list
select owner, name, version, started_at, seen_at, done, failed from {worker} order by seen_at desc, owner;

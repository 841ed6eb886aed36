-- Who works on a box.

-- name: worker_tell
insert into {worker} (owner, name, version, started_at, seen_at)
values (@owner, @name, @version, {now}, {now})
on conflict (owner) do update set seen_at = excluded.seen_at;

-- name: worker_leave
delete from {worker} where owner = @owner;

-- name: worker_forget
delete from {worker} where seen_at <= {now} - @unseen returning owner;

-- name: worker_list
select owner, name, version, started_at, seen_at from {worker} order by seen_at desc, owner;

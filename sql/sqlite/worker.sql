-- Who works on a box.

-- name: worker_tell
insert into {worker} (owner, name, version, started_at, seen_at, done, failed)
values (@owner, @name, @version, {now}, {now}, @done, @failed)
on conflict (owner) do update set seen_at = excluded.seen_at, done = excluded.done, failed = excluded.failed;

-- name: worker_leave
delete from {worker} where owner = @owner;

-- name: worker_forget
delete from {worker} where seen_at <= {now} - @unseen returning owner;

-- name: worker_list
select owner, name, version, started_at, seen_at, done, failed from {worker} order by seen_at desc, owner;

-- Who works on a box.

-- name: worker_tell
insert into {worker} (owner, name, version, started_at, seen_at, done, failed, live_until, handles)
values (@owner::uuid, @name::text, @version::text, {now}, {now}, @done::bigint, @failed::bigint,
        {now} + @lives::bigint * interval '1 microsecond', @handles::text)
on conflict (owner) do update
set seen_at = excluded.seen_at, done = excluded.done, failed = excluded.failed, live_until = excluded.live_until,
    handles = excluded.handles;

-- name: worker_leave
delete from {worker} where owner = @owner::uuid;

-- name: worker_forget
delete from {worker} where seen_at <= {now} - @unseen::bigint * interval '1 microsecond' returning owner;

-- What live workers handle, all but @owner; mostly the same.
-- name: worker_handles
select distinct handles from {worker} where owner <> @owner::uuid and live_until > {now} and handles is not null;

-- name: worker_list
select owner, name, version, started_at, seen_at, done, failed from {worker} order by seen_at desc, owner limit @limit::bigint;

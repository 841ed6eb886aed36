-- The workers of a box.

-- name: worker_heartbeat
insert into {worker} as w (owner, name, version, started_at, seen_at, done, failed, live_until, handles, progress_at)
values (@owner::uuid, @name::text, @version::text, {now}, {now}, @done::bigint, @failed::bigint,
        {now} + @lives::bigint * interval '1 microsecond', @handles::text,
        case when @done::bigint + @failed::bigint > 0 then {now} end)
on conflict (owner) do update
set progress_at = case when excluded.done + excluded.failed > w.done + w.failed then excluded.seen_at
                       else w.progress_at end,
    name = excluded.name, seen_at = excluded.seen_at, done = excluded.done, failed = excluded.failed,
    live_until = excluded.live_until, handles = excluded.handles;

-- A worker that has left has no name. Its announcement counts until it lapses, because a new replica may be restarting.
-- name: worker_leave
update {worker} set name = '' where owner = @owner::uuid;

-- Workers that were not seen for long, and those that have left once their announcement has lapsed.
-- name: worker_forget
delete from {worker}
where seen_at <= {now} - @unseen::bigint * interval '1 microsecond' or (name = '' and live_until <= {now}) returning owner;

-- The announcements of live workers, except @owner; mostly the same.
-- name: worker_handles
select distinct handles from {worker} where owner <> @owner::uuid and live_until > {now} and handles is not null;

-- name: worker_list
select owner, name, version, started_at, seen_at, done, failed from {worker}
where name <> '' order by seen_at desc, owner limit @limit::bigint;

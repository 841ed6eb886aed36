-- Named leases: rows, so that they hold behind a pooler that gives every transaction another connection.

-- define: mine
l.owner = excluded.owner and l.lease_until > {now}

-- Of two concurrent calls the second waits for the row of the first and then reads it again. Its clock is older than
-- the row's then, which can only make it wait longer.
-- name: lease_acquire
insert into {named_lease} as l (name, owner, epoch, lease_until)
values (@name::text, @owner::uuid, 1, {now} + @lease::bigint * interval '1 microsecond')
on conflict (name) do update
set owner = excluded.owner,
    epoch = case when {mine} then l.epoch else least(l.epoch, 9223372036854775806) + 1 end,
    lease_until = case when {mine} then greatest(l.lease_until, excluded.lease_until) else excluded.lease_until end
where l.owner is null or l.owner = excluded.owner or l.lease_until <= {now}
returning epoch;

-- A clock that steps backwards never shortens a lease.
-- name: lease_renew
update {named_lease}
set lease_until = greatest(lease_until, {now} + @lease::bigint * interval '1 microsecond')
where name = @name::text and owner = @owner::uuid and epoch = @epoch::bigint and lease_until > {now}
returning name;

-- name: lease_release
update {named_lease} set owner = null, lease_until = {now}
where name = @name::text and owner = @owner::uuid and epoch = @epoch::bigint
returning name;

-- name: lease_holders
select name, owner, epoch, lease_until from {named_lease}
where name = any(@name::text[]) and owner is not null and lease_until > {now};

-- name: lease_list
select name, owner, epoch, lease_until from {named_lease}
where owner is not null and lease_until > {now} and name > @after::text
order by name limit @limit::bigint;

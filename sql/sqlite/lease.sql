-- Named leases: one writer at a time, so the row alone decides.

-- define: mine
l.owner = excluded.owner and l.lease_until > {now}

-- name: lease_acquire
insert into {named_lease} as l (name, owner, epoch, lease_until)
values (@name, @owner, 1, {now} + @lease)
on conflict (name) do update
set owner = excluded.owner,
    epoch = case when {mine} then l.epoch else min(l.epoch, 9223372036854775806) + 1 end,
    lease_until = case when {mine} then max(l.lease_until, excluded.lease_until) else excluded.lease_until end
where l.owner is null or l.owner = excluded.owner or l.lease_until <= {now}
returning epoch;

-- A clock that steps backwards never shortens a lease.
-- name: lease_renew
update {named_lease} set lease_until = max(lease_until, {now} + @lease)
where name = @name and owner = @owner and epoch = @epoch and lease_until > {now}
returning name;

-- name: lease_release
update {named_lease} set owner = null, lease_until = {now}
where name = @name and owner = @owner and epoch = @epoch
returning name;

-- name: lease_holders
select name, owner, epoch, lease_until from {named_lease}
where name = @name and owner is not null and lease_until > {now};

-- name: lease_list
select name, owner, epoch, lease_until from {named_lease}
where owner is not null and lease_until > {now} and name > @after
order by name limit @limit;

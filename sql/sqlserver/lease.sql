-- Named leases: rows, so that they hold behind a pooler that gives every transaction another connection.

-- define: lease_end
dateadd(microsecond, cast(@lease % 1000000 as int), dateadd(second, cast(@lease / 1000000 as int), {now}))

-- define: mine
owner = @owner and lease_until > {now}

-- Of two concurrent calls the second waits for the row of the first and then reads it again. Its clock is older than
-- the row's then, which can only make it wait longer.
-- name: lease_acquire
declare @given table (epoch bigint);
{once}
delete from @given;
update {named_lease}
set owner = @owner,
    epoch = case when {mine} then epoch when epoch < 9223372036854775807 then epoch + 1 else epoch end,
    lease_until = case when {mine} and lease_until > {lease_end} then lease_until else {lease_end} end
output inserted.epoch into @given (epoch)
where name = @name and (owner is null or owner = @owner or lease_until <= {now});
insert into {named_lease} (name, owner, epoch, lease_until)
output inserted.epoch into @given (epoch)
select @name, @owner, 1, {lease_end}
where not exists (select 1 from {named_lease} l where l.name = @name);
{end_retry}
select epoch from @given;

-- A clock that steps backwards never shortens a lease.
-- name: lease_renew
update {named_lease}
set lease_until = case when lease_until > {lease_end} then lease_until else {lease_end} end
output inserted.name as name
where name = @name and owner = @owner and epoch = @epoch and lease_until > {now};

-- name: lease_release
update {named_lease} set owner = null, lease_until = {now}
output inserted.name as name
where name = @name and owner = @owner and epoch = @epoch;

-- name: lease_holders
select name, owner, epoch, lease_until from {named_lease}
where owner is not null and lease_until > {now}
  and name in (select {plain:name} from openjson(@rows) with (name nvarchar(600) '$.name') as j);

-- name: lease_list
select top (@limit) name, owner, epoch, lease_until from {named_lease}
where owner is not null and lease_until > {now} and name > @after order by name;

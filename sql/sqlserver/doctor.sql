-- The queries of the doctor. Statements without a meaning here return nothing.

-- name: doctor_settings
select 'delayed_durability' as name, coalesce(cast(delayed_durability_desc as nvarchar(60)), N'DISABLED') as value
from sys.databases where name = db_name()
union all
select 'read_committed_snapshot', case when is_read_committed_snapshot_on = 1 then 'on' else 'off' end
from sys.databases where name = db_name();

-- name: doctor_clock
select sysutcdatetime() as now;

-- name: doctor_held
select '' as who, '' as what, cast(0 as float) as age where 1 = 0;

-- name: doctor_names
select i.name as name, case when i.is_disabled = 1 then 0 else 1 end as valid
from sys.indexes i
join sys.tables t on t.object_id = i.object_id
join sys.schemas s on s.schema_id = t.schema_id
where s.name = {schema_text} and i.name is not null
union all
select r.name, case when r.is_disabled = 1 then 0 else 1 end
from sys.triggers r
join sys.tables t on t.object_id = r.parent_id
join sys.schemas s on s.schema_id = t.schema_id
where s.name = {schema_text};

-- name: doctor_vacuum
select '' as options where 1 = 0;

-- name: doctor_file
select '' as [file] where 1 = 0;

-- name: doctor_sequences
select '' as name, 0 as reached, 0 as used where 1 = 0;

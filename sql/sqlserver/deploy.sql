-- The statements of a deployment.

-- One deployment at a time: two at the same moment would both create the missing objects.
-- name: deploy_alone
exec sp_getapplock 'twinbox schema', 'Exclusive', 'Transaction', 600000;

-- name: create_schema
if schema_id({schema_text}) is null exec(N'create schema {schema_inside_text}');

-- name: applied
select name, coalesce(version, 0) as version, hash from {version} where box = @box;

-- name: write_applied
delete from {version} where box = @box and name = @name;
insert into {version} (box, name, version, hash) values (@box, @name, @version, @hash);

-- Without their bodies, which a server does not keep unchanged.
-- name: functions
select p.name as name, '' as body, '' as id, '' as written, '' as signature, '' as grants
from sys.procedures p join sys.schemas s on s.schema_id = p.schema_id
where s.name = @schema;

-- Only PostgreSQL keeps counters that a replica can lose.
-- name: repair_sequences
select '' as name, 0 as reached, 0 as used where 1 = 0;

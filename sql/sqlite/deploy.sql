-- The statements of a deployment. A file has one writer, its schemas are parts of names, and it has no functions.

-- name: deploy_alone
select 1 where false;

-- name: create_schema
select 1 where false;

-- name: applied
select name, coalesce(version, 0) as version, hash from {version} where box = @box;

-- name: write_applied
delete from {version} where box = @box and name = @name;
insert into {version} (box, name, version, hash) values (@box, @name, @version, @hash);

-- name: functions
select '' as name, '' as body, '' as id, '' as written, '' as signature, '' as grants where @schema is null;

-- Only PostgreSQL keeps counters that a replica can lose.
-- name: repair_sequences
select '' as name, 0 as reached, 0 as used where false;

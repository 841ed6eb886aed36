-- Definitions for the other files of this dialect.

-- define: now
@now

-- The result of a claim.
-- define: claimed
w.id, w.epoch, w.handler, w.attempts, w.expiries, w.requeues, w.visible_at, w.lease_until, w.last_error, m.source,
  m.id as message_id, m.topic, m.payload, m.content_type, m.headers, m.correlation_id, m.partition_key, m.hash,
  m.hash_algorithm, m.due_at, m.expires_at, m.created_at, m.last_seen_at, m.seen_count, m.content_version

-- Case and every character count; otherwise SQL Server compares by the database's collation.
-- define: binary
collate Latin1_General_100_BIN2

-- A text in @rows has no sign that JSON must escape: {plain:x} is the value of column x of j, {encoded:x} the encoded
-- form of variable @x.
-- define: plain:
replace(replace(replace(replace(replace(replace(j.% {binary},
  N'~q', N'"'), N'~b', N'\'), N'~n', nchar(10)), N'~r', nchar(13)), N'~i', nchar(9)), N'~t', N'~')

-- define: encoded:
replace(replace(replace(replace(replace(replace(@% {binary},
  N'~', N'~t'), N'"', N'~q'), N'\', N'~b'), nchar(10), N'~n'), nchar(13), N'~r'), nchar(9), N'~i')

-- Two transactions may find a row missing and insert it at the same moment; the second one reads again. No HOLDLOCK:
-- it would lock the range of all new ids, and block every other transaction. An error under xact_abort would end the
-- caller's transaction; the setting ends with the batch.
-- define: once
set xact_abort off;
declare @tries int = 0;
while @tries >= 0
begin
begin try

-- define: end_retry
set @tries = -1;
end try
begin catch
if error_number() not in (2601, 2627) or @tries >= 10 begin; throw; end;
set @tries = @tries + 1;
end catch
end;

-- The partition keys whose locks are needed.
-- define: keys
declare @keys table (partition_key nvarchar(255) {binary});

-- Takes the locks of @keys in their order, until the transaction ends. Long names are truncated: sharing a lock only
-- costs waiting. A second read after a lock must see the current rows, which a snapshot never shows.
-- define: lock_keys
declare @key nvarchar(255) = (select min(partition_key) from @keys);
declare @resource nvarchar(255);
declare @locked int;
if @key is not null
   and 5 = (select s.transaction_isolation_level from sys.dm_exec_sessions s where s.session_id = @@spid)
begin; throw 51003, 'a partition key cannot be used in a snapshot transaction: use read committed', 1; end;
while @key is not null
begin
set @resource = left({lock_text} + @key, 127);
exec @locked = sp_getapplock @resource, 'Exclusive', 'Transaction';
if @locked < 0 begin; throw 51205, 'the lock of a partition key was not granted', 1; end;
set @key = (select min(partition_key) from @keys where partition_key > @key);
end;

-- A procedure is one action: a transaction of its own, or a savepoint in the caller's.
-- define: begin
set nocount on;
set xact_abort off;
declare @own bit = case when @@trancount = 0 then 1 else 0 end;
if @own = 1 begin transaction; else save transaction twinbox_procedure;
begin try

-- define: end
if @own = 1 commit transaction;
end try
begin catch
if @own = 1 and @@trancount > 0 rollback transaction;
if @own = 0 and xact_state() = 1 rollback transaction twinbox_procedure;
throw;
end catch;

-- The arguments of a procedure as the rows of a statement.
-- define: ids_as_rows
(select cast(i.value as bigint) as id, cast(e.value as int) as epoch
 from openjson(@ids) as i left join openjson(@epochs) as e on e.[key] = i.[key] for json path, include_null_values)

-- define: ids_as_rows_with_error
(select cast(i.value as bigint) as id, cast(e.value as int) as epoch, {encoded:error} as error, @delay as delay
 from openjson(@ids) as i left join openjson(@epochs) as e on e.[key] = i.[key] for json path, include_null_values)

-- {describe:x} makes @text the description of procedure x in the catalog.
-- define: describe:
declare @called nvarchar(128) = {table_text} + N'_%';
if exists (select 1 from sys.extended_properties
           where class = 1 and minor_id = 0 and name = N'MS_Description'
             and major_id = object_id(quotename({schema_text}) + N'.' + quotename(@called)))
  exec sys.sp_updateextendedproperty N'MS_Description', @text, N'schema', {schema_text}, N'procedure', @called;
else
  exec sys.sp_addextendedproperty N'MS_Description', @text, N'schema', {schema_text}, N'procedure', @called;

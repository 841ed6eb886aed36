-- The work queue for any language: claim, renew, ack, abandon, release, fail, reap. The bodies are the library's own
-- batches (blocks of the .sql files next to this folder), so the logic exists once. Ids and epochs are JSON arrays of
-- numbers, in the same order. A role that may execute these needs no right on a table.

create procedure {function:claim}
  @owner uniqueidentifier, @lease_seconds int, @batch_size int, @visible_from datetime2(6) = null,
  @at datetime2(6) = null
as
begin
  {begin}
  exec {function:check_owner} @owner;
  if coalesce(@lease_seconds, 0) <= 0 begin; throw 51022, 'lease_seconds: must be longer than zero', 1; end;
  if coalesce(@batch_size, 0) <= 0 begin; throw 51022, 'batch_size: must be at least 1', 1; end;
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @lease bigint = cast(@lease_seconds as bigint) * 1000000;
  declare @limit bigint = @batch_size;
  declare @floor datetime2(6) = @visible_from;
  {body:claim}
  declare @missing table (
    number bigint, id bigint primary key, attempts int, expiries int, requeues int, handler nvarchar(200) {binary});
  delete from {work}
  output deleted.number, deleted.id, deleted.attempts, deleted.expiries, deleted.requeues, deleted.handler
  into @missing (number, id, attempts, expiries, requeues, handler)
  where id in (select t.id from @taken t where not exists (
    select 1 from {work} w join {message} m on m.number = w.number where w.id = t.id));
  insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                         reason, last_error)
  select number, id, {now}, @owner, attempts, expiries, requeues, 2, handler, N'message_missing',
         N'the message row is gone'
  from @missing;
  select {claimed}
  from {work} w join {message} m on m.number = w.number
  where w.id in (select t.id from @taken t)
  order by w.visible_at, w.id;
  {end}
end;
go

declare @text nvarchar(1000) =
  N'Leases due deliveries to an owner, oldest first. Returns them with their messages, delivery ids and epochs.';
{describe:claim}
go

create procedure {function:renew}
  @owner uniqueidentifier, @ids nvarchar(max), @lease_seconds int, @epochs nvarchar(max) = null,
  @at datetime2(6) = null
as
begin
  {begin}
  exec {function:check_owner} @owner;
  exec {function:check_ids} @ids;
  exec {function:check_epochs} N'renew', @ids, @epochs;
  if coalesce(@lease_seconds, 0) <= 0 begin; throw 51022, 'lease_seconds: must be longer than zero', 1; end;
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @lease bigint = cast(@lease_seconds as bigint) * 1000000;
  declare @check_epoch bit = case when @epochs is null then 0 else 1 end;
  declare @rows nvarchar(max) = {ids_as_rows};
  {step:renew_1}
  {end}
end;
go

declare @text nvarchar(1000) =
  N'Extends the leases of an owner. Returns the delivery ids that it still holds.';
{describe:renew}
go

create procedure {function:ack}
  @owner uniqueidentifier, @ids nvarchar(max), @epochs nvarchar(max) = null, @at datetime2(6) = null
as
begin
  {begin}
  exec {function:check_owner} @owner;
  exec {function:check_ids} @ids;
  exec {function:check_epochs} N'ack', @ids, @epochs;
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @check_epoch bit = case when @epochs is null then 0 else 1 end;
  declare @rows nvarchar(max) = {ids_as_rows};
  {body:ack}
  {end}
  select count(*) as changed from @gone;
end;
go

declare @text nvarchar(1000) =
  N'Finishes leased deliveries as done. Returns how many.';
{describe:ack}
go

create procedure {function:abandon}
  @owner uniqueidentifier, @ids nvarchar(max), @error nvarchar(max) = null, @delay_seconds int = null,
  @epochs nvarchar(max) = null, @at datetime2(6) = null
as
begin
  {begin}
  exec {function:check_owner} @owner;
  exec {function:check_ids} @ids;
  exec {function:check_epochs} N'abandon', @ids, @epochs;
  if @delay_seconds <= 0 begin; throw 51022, 'delay_seconds: must be longer than zero', 1; end;
  set @error = nullif(@error, N'');
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @check_epoch bit = case when @epochs is null then 0 else 1 end;
  declare @first_delay bigint = 2000000;
  declare @max_delay bigint = 60000000;
  declare @delay bigint = cast(@delay_seconds as bigint) * 1000000;
  declare @rows nvarchar(max) = {ids_as_rows_with_error};
  {body:abandon}
  {end}
  select count(*) as changed from @settled;
end;
go

declare @text nvarchar(1000) =
  N'Records a failed attempt of leased deliveries, which are retried after a delay. Returns how many.';
{describe:abandon}
go

create procedure {function:release}
  @owner uniqueidentifier, @ids nvarchar(max), @until datetime2(6) = null, @epochs nvarchar(max) = null,
  @at datetime2(6) = null
as
begin
  {begin}
  exec {function:check_owner} @owner;
  exec {function:check_ids} @ids;
  exec {function:check_epochs} N'release', @ids, @epochs;
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @check_epoch bit = case when @epochs is null then 0 else 1 end;
  declare @rows nvarchar(max) = {ids_as_rows};
  {step:release_1}
  {end}
end;
go

declare @text nvarchar(1000) =
  N'Ends leases without an attempt. Returns the delivery ids that the owner held.';
{describe:release}
go

create procedure {function:fail}
  @owner uniqueidentifier, @ids nvarchar(max), @error nvarchar(max), @reason nvarchar(4000) = N'failed',
  @epochs nvarchar(max) = null, @at datetime2(6) = null, @hold_keys bit = 0
as
begin
  {begin}
  exec {function:check_owner} @owner;
  exec {function:check_ids} @ids;
  exec {function:check_epochs} N'fail', @ids, @epochs;
  if @error is null begin; throw 51022, 'error: must not be null (it may be empty)', 1; end;
  set @error = nullif(@error, N'');
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @check_epoch bit = case when @epochs is null then 0 else 1 end;
  declare @counts bit = 1;
  declare @delay bigint = null;
  declare @rows nvarchar(max) = {ids_as_rows_with_error};
  {body:fail}
  {end}
  select count(*) as changed from @gone;
end;
go

declare @text nvarchar(1000) =
  N'Ends leased deliveries as dead letters. Returns how many.';
{describe:fail}
go

-- Without a batch_size all of them, like the library's own reap().
create procedure {function:reap}
  @batch_size int = 2147483647, @at datetime2(6) = null
as
begin
  {begin}
  if coalesce(@batch_size, 0) <= 0 begin; throw 51022, 'batch_size: must be at least 1', 1; end;
  declare @now datetime2(6) = coalesce(@at, sysutcdatetime());
  declare @limit bigint = @batch_size;
  {step:reap_1}
  {end}
end;
go

declare @text nvarchar(1000) =
  N'Releases deliveries whose leases have expired. Returns their delivery ids.';
{describe:reap}
go

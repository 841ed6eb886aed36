-- A program in any language enqueues inside its own transaction: exec infra.outbox_enqueue N'topic',
-- 0x7061796c6f6164. Returns a row: the message's id (also in @id), which is made here unless the caller gives one,
-- whether it was known, and whether it was known with another topic or payload. The first one is kept unchanged.

create procedure {function:enqueue}
  @topic nvarchar(max), @payload varbinary(max), @id nvarchar(max) = null output, @correlation_id nvarchar(max) = null,
  @due_at datetime2(6) = null, @partition_key nvarchar(max) = null, @headers nvarchar(max) = null,
  @content_type nvarchar(max) = null, @expires_at datetime2(6) = null
as
begin
  {begin}
  declare @known bit;
  declare @differs bit;
  set @id = coalesce(@id, lower(cast(newid() as nvarchar(36))));
  exec {function:check_text} N'topic', @topic, 255;
  exec {function:check_text} N'id', @id, 255;
  exec {function:check_extras} @payload, @correlation_id, @partition_key, @headers;
  if @content_type <> N'' exec {function:check_text} N'content_type', @content_type, 1000;
  declare @now datetime2(6) = sysutcdatetime();
  declare @bytes varbinary(max) = @payload;
  declare @handlers nvarchar(max) = N'[{"key": "", "legacy": []}]';
  declare @rows nvarchar(max) = (
    select 1 as position, cast(0 as bit) as replaces, N'-' as source, {encoded:id} as id, {encoded:topic} as topic, {encoded:content_type} as content_type,
           {encoded:headers} as headers, nullif({encoded:correlation_id}, N'') as correlation_id,
           nullif({encoded:partition_key}, N'') as partition_key, @due_at as due_at, @expires_at as expires_at,
           1 as payload_at, datalength(@payload) as payload_size
    for json path, include_null_values);
  {body:accept}
  set @known = (select case when exists (select 1 from @missing) then 0 else 1 end);
  set @differs = (select k.conflict from @arrived k);
  {end}
  select {encoded:id} as id, @known as duplicate, @differs as conflict;
end;
go

declare @text nvarchar(1000) =
  N'Enqueues a message in your transaction. Returns its id, and whether the id was known, and known with another content.';
{describe:enqueue}
go

-- A program in any language accepts inside its own transaction. Returns a row: the state 'accepted',
-- 'duplicate_open', 'duplicate_done' or 'duplicate_dead', whether it is a duplicate, and whether the message was
-- known with another topic, payload or hash. The first message of a key is kept unchanged. @handler_keys is a JSON
-- array of texts.

create procedure {function:accept}
  @source nvarchar(max), @id nvarchar(max), @topic nvarchar(max), @payload varbinary(max), @hash varbinary(max) = null,
  @due_at datetime2(6) = null, @handler_keys nvarchar(max) = N'[""]', @correlation_id nvarchar(max) = null,
  @partition_key nvarchar(max) = null, @headers nvarchar(max) = null, @content_type nvarchar(max) = null,
  @expires_at datetime2(6) = null, @hash_algorithm nvarchar(max) = N'sha256'
as
begin
  {begin}
  declare @longest int = case when @handler_keys = N'[""]' then 255 else 200 end;
  declare @answer nvarchar(20);
  declare @differs bit;
  exec {function:check_text} N'source', @source, 255;
  exec {function:check_text} N'id', @id, @longest;
  exec {function:check_text} N'topic', @topic, 255;
  exec {function:check_extras} @payload, @correlation_id, @partition_key, @headers;
  if @content_type <> N'' exec {function:check_text} N'content_type', @content_type, 1000;
  if datalength(@hash) = 0 begin; throw 51022, 'hash: empty (pass null when there is none)', 1; end;
  if @hash is not null exec {function:check_text} N'hash_algorithm', @hash_algorithm, 255;
  if @handler_keys is null or isjson(@handler_keys) = 0 or left(ltrim(@handler_keys), 1) <> N'['
  begin; throw 51022, 'handler_keys: not a JSON array of texts, such as ["mail"]', 1; end;
  declare @named table (handler nvarchar(max));
  insert into @named (handler) select h.value from openjson(@handler_keys) as h;
  if not exists (select 1 from @named)
     or exists (select 1 from @named group by handler {binary} having count(*) > 1)
  begin; throw 51022, 'handler_keys: at least one is needed, each once', 1; end;
  if exists (select 1 from @named where len(handler + N'.') - 1 > 200 or right(handler + N'.', 2) = N' .')
  begin; throw 51022, 'handler_keys: at most 200 characters each, with no blank at the end', 1; end;
  declare @now datetime2(6) = sysutcdatetime();
  declare @bytes varbinary(max) = @payload + coalesce(@hash, 0x);
  declare @handlers nvarchar(max) = (select handler as [key], json_query(N'[]') as legacy from @named for json path, include_null_values);
  declare @rows nvarchar(max) = (
    select 1 as position, cast(0 as bit) as replaces, {encoded:source} as source, {encoded:id} as id, {encoded:topic} as topic, {encoded:content_type} as content_type,
           {encoded:headers} as headers, nullif({encoded:correlation_id}, N'') as correlation_id,
           nullif({encoded:partition_key}, N'') as partition_key, @due_at as due_at, @expires_at as expires_at,
           1 as payload_at, datalength(@payload) as payload_size,
           case when @hash is not null then {encoded:hash_algorithm} end as hash_algorithm,
           case when @hash is not null then datalength(@payload) + 1 end as hash_at, datalength(@hash) as hash_size
    for json path, include_null_values);
  {body:accept}
  set @answer = (
    select case
             when exists (select 1 from @missing n where n.number = k.number) then 'accepted'
             when k.is_open = 1 then 'duplicate_open'
             when k.is_dead = 1 then 'duplicate_dead'
             else 'duplicate_done'
           end
    from @arrived k);
  set @differs = (select k.conflict from @arrived k);
  {end}
  select @answer as state, cast(case when @answer = 'accepted' then 0 else 1 end as bit) as duplicate,
         @differs as conflict;
end;
go

declare @text nvarchar(1000) =
  N'Accepts a message into the inbox, once per source and id, in your transaction. Returns state, duplicate and conflict.';
{describe:accept}
go

-- The bounds of arguments from any language, as the C++ types check them.

create procedure {function:check_text}
  @noun nvarchar(100), @value nvarchar(max), @most int
as
begin
  declare @reason nvarchar(400) = case
    when @value is null
         or replace(replace(replace(@value, nchar(9), N''), nchar(10), N''), nchar(13), N'') = N''
      then @noun + N': empty, 1 to ' + cast(@most as nvarchar(10)) + N' characters are needed'
    when len(@value + N'.') - 1 > @most
      then @noun + N': too long, at most ' + cast(@most as nvarchar(10)) + N' characters are allowed'
    when @noun not in (N'topic', N'content_type') and right(@value + N'.', 2) = N' .'
      then @noun + N': ends with a blank, which SQL Server does not tell from a text without; leave it out'
  end;
  if @reason is not null begin; throw 51022, @reason, 1; end;
end;
go

declare @text nvarchar(1000) =
  N'Internal: refuses a text that is empty or too long.';
{describe:check_text}
go

create procedure {function:check_extras}
  @payload varbinary(max), @correlation_id nvarchar(max), @partition_key nvarchar(max), @headers nvarchar(max)
as
begin
  if @payload is null begin; throw 51022, 'payload: must not be null (it may be empty)', 1; end;
  if @correlation_id <> N'' exec {function:check_text} N'correlation_id', @correlation_id, 255;
  if @partition_key <> N'' exec {function:check_text} N'partition_key', @partition_key, 255;
  if @headers is not null and (isjson(@headers) = 0 or left(ltrim(@headers), 1) <> N'{')
  begin; throw 51022, 'headers: not a JSON object', 1; end;
end;
go

declare @text nvarchar(1000) =
  N'Internal: refuses a null payload, bad keys, and headers that are not a JSON object.';
{describe:check_extras}
go

create procedure {function:check_owner}
  @owner uniqueidentifier
as
begin
  if @owner is null or @owner = '00000000-0000-0000-0000-000000000000'
  begin; throw 51022, 'owner: must not be null or all zero', 1; end;
end;
go

declare @text nvarchar(1000) =
  N'Internal: refuses an owner that is null or all zero.';
{describe:check_owner}
go

create procedure {function:check_ids}
  @ids nvarchar(max)
as
begin
  if @ids is null or isjson(@ids) = 0 or left(ltrim(@ids), 1) <> N'['
  begin; throw 51022, 'ids: not a JSON array of numbers, such as [1, 2]', 1; end;
end;
go

declare @text nvarchar(1000) =
  N'Internal: refuses ids that are not a JSON array.';
{describe:check_ids}
go

create procedure {function:check_epochs}
  @called nvarchar(100), @ids nvarchar(max), @epochs nvarchar(max)
as
begin
  if @epochs is null return;
  if isjson(@epochs) = 0 or left(ltrim(@epochs), 1) <> N'['
  begin; throw 51022, 'epochs: not a JSON array of numbers, such as [1, 2]', 1; end;
  declare @id_count int = (select count(*) from openjson(@ids));
  declare @epoch_count int = (select count(*) from openjson(@epochs));
  declare @reason nvarchar(400) = concat({table_text}, N'_', @called, N': ids has ', @id_count,
    N' elements and epochs has ', @epoch_count, N'; pass one epoch for each id');
  if @id_count <> @epoch_count begin; throw 51022, @reason, 1; end;
end;
go

declare @text nvarchar(1000) =
  N'Internal: refuses epochs that are not one for each id.';
{describe:check_epochs}
go

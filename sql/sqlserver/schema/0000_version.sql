-- The applied scripts, per box: migrations by number, procedures by the hash of their text.
if not exists (
  select 1 from sys.tables t join sys.schemas s on s.schema_id = t.schema_id
  where s.name = {schema_text} and t.name = N'twinbox_schema')
create table {version} (
  box        nvarchar(128) {binary} not null,
  name       nvarchar(128) {binary} not null,
  version    int,
  hash       nvarchar(64) not null,
  applied_at datetime2(6) not null default sysutcdatetime(),
  primary key (box, name)
);
go

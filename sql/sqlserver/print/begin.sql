-- Run it with sqlcmd -b, which stops at the first error. Without this setting sqlcmd reads "a name" as a text.
set quoted_identifier on;
set ansi_nulls on;
go
set xact_abort on;
begin transaction;
go

if schema_id({schema_text}) is null exec(N'create schema {schema_inside_text}');
go

-- Without this setting sqlcmd reads "a name" as a text.
set quoted_identifier on;
set ansi_nulls on;
go
-- The right to enqueue by SQL only: no right on a table is needed.
grant execute on {function:enqueue} to {role};

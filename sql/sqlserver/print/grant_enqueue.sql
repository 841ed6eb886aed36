-- sqlcmd reads "a name" as a text unless it is told.
set quoted_identifier on;
set ansi_nulls on;
go
-- Enough to enqueue by SQL, and for nothing else: no right on a table is needed.
grant execute on {function:enqueue} to {role};

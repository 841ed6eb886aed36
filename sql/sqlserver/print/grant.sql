-- Without this setting sqlcmd reads "a name" as a text.
set quoted_identifier on;
set ansi_nulls on;
go
-- The rights of a role that calls the procedures: no right on a table is needed.
{function_grants}
-- The additional rights of the library: its statements name the tables themselves.
grant select on {version} to {role};
grant select on {box} to {role};
grant select, insert, update, delete on {message} to {role};
grant select, insert, update, delete on {work} to {role};
grant select, insert, update, delete on {outcome} to {role};
grant select, insert, update, delete on {failure} to {role};
grant select, insert, update, delete on {audit} to {role};
grant select, insert, update, delete on {named_lease} to {role};
grant select, insert, update, delete on {worker} to {role};
grant select, insert, update, delete on {hold} to {role};

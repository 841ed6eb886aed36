-- The right to enqueue by SQL only: no right on a table is needed.
grant usage on schema {schema} to {role};
grant execute on function {function:enqueue}(text, bytea, text, text, timestamptz, text, text, text, timestamptz)
  to {role};
grant execute on function {function:enqueue}(text, text, text, text, timestamptz, text, text, text, timestamptz)
  to {role};

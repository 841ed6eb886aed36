grant usage on schema {schema} to {role};
grant select on {version}, {box} to {role};
grant select, insert, update, delete on {message}, {work}, {outcome}, {failure}, {audit}, {named_lease}, {worker}, {hold} to {role};
do $twinbox$
declare
  signature regprocedure;
  sequence regclass;
begin
  for sequence in
    select pg_get_serial_sequence(table_name, column_name)::regclass
    from (values ({message_text}, 'number'), ({work_text}, 'id'), ({failure_text}, 'id'), ({audit_text}, 'id'))
      counter(table_name, column_name)
  loop
    execute format('grant select on sequence %s to %I', sequence, {role_text});
  end loop;
  for signature in
    select p.oid::regprocedure from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = {schema_text} and p.proname in ({function_names})
  loop
    execute format('grant execute on function %s to %I', signature, {role_text});
  end loop;
end $twinbox$;

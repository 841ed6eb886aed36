-- A dead delivery may hold its partition key: while its row exists, the deliveries behind it wait. The row stays when
-- an operator requeues the delivery (requeued), and is deleted at the delivery's end, so that the next one follows
-- only then.
create table {hold} (
  number        bigint not null,
  handler       text collate "C" not null,
  partition_key text collate "C" not null,
  requeued      boolean not null default false,
  primary key (number, handler)
);

create unique index {name:hold_key} on {hold} (partition_key, handler);

-- Their successors have one more argument; two functions of a name would make a call ambiguous.
drop function if exists {function:fail}(uuid, bigint[], text, text, int[]);
drop function if exists {function:fail_batch}(uuid, bigint[], int[], text[], text, boolean, timestamptz);
drop function if exists {function:promote_keys}(text[], text[]);

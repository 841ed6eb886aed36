-- A dead delivery may hold its partition key: while its row exists, the deliveries behind it wait. The row stays when
-- an operator requeues the delivery (requeued), and is deleted at the delivery's end, so that the next one follows
-- only then.
create table {hold} (
  number        integer not null,
  handler       text not null,
  partition_key text not null,
  requeued      integer not null default 0,
  primary key (number, handler)
) without rowid;

create unique index {name:hold_key} on {hold} (partition_key, handler);

-- Removing the head of a key releases the next delivery, unless the key is held. One writer at a time: no lock is
-- needed.
drop trigger {name:work_promote};

create trigger {name:work_promote} after delete on {work} when old.partition_key is not null
begin
  delete from {hold} where number = old.number and handler = old.handler and requeued = 1;
  update {work} set waiting = 0
  where waiting = 1 and id = (
    select id from {work} where partition_key = old.partition_key and handler = old.handler
    order by id limit 1)
    and not exists (select 1 from {hold} where partition_key = old.partition_key and handler = old.handler);
end;

-- A dead letter that is no longer dead, and was not requeued, releases its key.
create trigger {name:outcome_release_key} after update of state on {outcome} when old.state = 2 and new.state <> 2
begin
  update {work} set waiting = 0
  where waiting = 1 and id = (
    select w.id from {hold} h join {work} w on w.partition_key = h.partition_key and w.handler = h.handler
    where h.number = old.number and h.handler = old.handler
    order by w.id limit 1);
  delete from {hold} where number = old.number and handler = old.handler;
end;

-- A dead delivery may hold its partition key: while its row exists, the deliveries behind it wait. The row stays when
-- an operator requeues the delivery (requeued), and is deleted at the delivery's end, so that the next one follows
-- only then.
create table {hold} (
  number        bigint not null,
  handler       nvarchar(200) {binary} not null,
  partition_key nvarchar(255) {binary} not null,
  requeued      bit not null default 0,
  primary key (number, handler)
);
go

create unique index {name:hold_key} on {hold} (partition_key, handler);
go

drop trigger {function:work_promote};
go

-- Removing the head of a partition key releases the next delivery, unless the key is held, under the lock that accept
-- takes for the key. A trigger, so that every way of removing a delivery does it.
create trigger {function:work_promote} on {work} after delete as
begin
  set nocount on;
  if not exists (select 1 from deleted where partition_key is not null) return;
  {keys}
  insert into @keys (partition_key) select partition_key from deleted where partition_key is not null;
  {lock_keys}
  delete h from {hold} h join deleted d on d.number = h.number and d.handler = h.handler where h.requeued = 1;
  update {work} set waiting = 0
  where waiting = 1 and id in (
    select (select top (1) n.id from {work} n
            where n.partition_key = d.partition_key and n.handler = d.handler order by n.id)
    from deleted d
    where d.partition_key is not null
      and not exists (
        select 1 from {hold} h where h.partition_key = d.partition_key and h.handler = d.handler));
end;
go

-- A dead letter that is no longer dead, and was not requeued, releases its key.
create trigger {function:outcome_release_key} on {outcome} after update as
begin
  set nocount on;
  if not exists (select 1 from deleted where state = 2) return;
  declare @free table (partition_key nvarchar(255) {binary}, handler nvarchar(200) {binary});
  insert into @free (partition_key, handler)
  select h.partition_key, h.handler
  from deleted d
  join inserted i on i.number = d.number and i.handler = d.handler
  join {hold} h on h.number = d.number and h.handler = d.handler
  where d.state = 2 and i.state <> 2;
  if not exists (select 1 from @free) return;
  {keys}
  insert into @keys (partition_key) select partition_key from @free;
  {lock_keys}
  delete h from {hold} h join @free f on f.partition_key = h.partition_key and f.handler = h.handler;
  update {work} set waiting = 0
  where waiting = 1 and id in (
    select (select top (1) n.id from {work} n
            where n.partition_key = f.partition_key and n.handler = f.handler order by n.id)
    from @free f);
end;
go

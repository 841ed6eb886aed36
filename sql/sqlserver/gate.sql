-- At-most-once deliveries: marked before their handler is called, ended or released afterwards.

-- define: held
id = @id and owner = @owner and epoch = @epoch

-- define: marked
delivery_id = @id and state = 4 and handler = @handler
  and number = (select m.number from {message} m where m.id = @message_id and m.source = @source)

-- define: gone
declare @gone table (
  number bigint, delivery_id bigint, attempts int, expiries int, requeues int, handler nvarchar(200) {binary},
  worker uniqueidentifier, last_error nvarchar(max));

-- define: into_gone
output deleted.number, deleted.id, deleted.attempts, deleted.expiries, deleted.requeues, deleted.handler, deleted.owner,
  deleted.last_error into @gone (number, delivery_id, attempts, expiries, requeues, handler, worker, last_error)

-- name: mark
{gone}
delete from {work} {into_gone} where {held};
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       last_error)
select number, delivery_id, {now}, @owner, attempts, expiries, requeues, 4, handler, last_error from @gone;
select delivery_id from @gone;

-- @state: 1 done, 2 dead by a call that failed.
-- name: finish_marked
declare @ended table (number bigint, delivery_id bigint, worker uniqueidentifier, attempts int, handler nvarchar(200) {binary});
update {outcome}
set state = @state, finished_at = {now}, reason = @reason, last_error = coalesce(@error, last_error),
    attempts = case when @state = 2 and attempts < 2147483647 then attempts + 1 else attempts end
output inserted.number, inserted.delivery_id, inserted.finished_by, inserted.attempts, inserted.handler
into @ended (number, delivery_id, worker, attempts, handler)
where {marked};
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, delivery_id, {now}, worker, attempts, handler, @error from @ended where @state = 2;
select delivery_id from @ended;

-- A failed call counts (@failed 1), a postponed one does not (0). The delivery goes to the end of its key like any new one.
-- name: release_marked
{keys}
{gone}
insert into @keys (partition_key)
select m.partition_key from {message} m
where m.id = @message_id and m.source = @source and m.partition_key is not null;
{lock_keys}
update {message} set seen_count = seen_count where id = @message_id and source = @source;
delete from {outcome}
output deleted.number, deleted.delivery_id, deleted.attempts, deleted.expiries, deleted.requeues, deleted.handler,
  deleted.finished_by, deleted.last_error
into @gone (number, delivery_id, attempts, expiries, requeues, handler, worker, last_error)
where {marked};
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, delivery_id, {now}, worker,
       case when attempts < 2147483647 then attempts + 1 else attempts end, handler, @error from @gone where @failed = 1;
declare @again datetime2(6) = dateadd(microsecond, cast(@delay % 1000000 as int),
                                      dateadd(second, cast(@delay / 1000000 as int), {now}));
insert into {work} (number, handler, visible_at, attempts, expiries, requeues, expires_at, last_error, partition_key,
                    waiting)
select g.number, g.handler, case when @until > @again then @until else @again end,
       case when @failed = 1 and g.attempts < 2147483647 then g.attempts + 1 else g.attempts end, g.expiries,
       g.requeues, m.expires_at, coalesce(@error, g.last_error), m.partition_key,
       case when exists (select 1 from {work} w where w.partition_key = m.partition_key and w.handler = g.handler)
                 or exists (select 1 from {hold} h where h.partition_key = m.partition_key and h.handler = g.handler)
            then 1 else 0 end
from @gone g join {message} m on m.number = g.number;
select delivery_id from @gone;

-- name: discard_held
{gone}
delete from {work} {into_gone} where {held};
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, delivery_id, {now}, @owner, attempts, expiries, requeues, 3, handler, @reason, last_error from @gone;
select delivery_id from @gone;

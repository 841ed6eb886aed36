-- At-most-once deliveries: marked before their handler is called, ended or released afterwards.

-- define: held
id = @id and owner = @owner and epoch = @epoch

-- define: marked
delivery_id = @id and state = 4 and handler = @handler
  and number = (select m.number from {message} m where m.id = @message_id and m.source = @source)

-- name: mark
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler,
                       last_error)
select number, id, {now}, @owner, attempts, expiries, requeues, 4, handler, last_error from {work} where {held};
delete from {work} where {held};

-- @state: 1 done, 2 dead by a call that failed.
-- name: finish_marked
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, delivery_id, {now}, finished_by, min(attempts, 2147483646) + 1, handler, @error from {outcome} where {marked} and @state = 2;
update {outcome}
set state = @state, finished_at = {now}, reason = @reason, last_error = coalesce(@error, last_error),
    attempts = min(attempts + (@state = 2), 2147483647)
where {marked};

-- A failed call counts (@failed 1), a postponed one does not (0). The delivery goes to the end of its key like any new one.
-- name: release_marked
insert into {failure} (number, delivery_id, failed_at, worker, attempt, handler, error)
select number, delivery_id, {now}, finished_by, min(attempts, 2147483646) + 1, handler, @error from {outcome} where {marked} and @failed = 1;
insert into {work} (number, handler, visible_at, attempts, expiries, requeues, expires_at, last_error, partition_key,
                    waiting)
select o.number, o.handler, max({now} + @delay, coalesce(@until, 0)), min(o.attempts + @failed, 2147483647), o.expiries, o.requeues,
       m.expires_at, coalesce(@error, o.last_error), m.partition_key,
       exists (select 1 from {work} w where w.partition_key = m.partition_key and w.handler = o.handler)
       or exists (select 1 from {hold} h where h.partition_key = m.partition_key and h.handler = o.handler)
from {outcome} o join {message} m on m.number = o.number
where m.id = @message_id and m.source = @source and o.delivery_id = @id and o.state = 4 and o.handler = @handler;
delete from {outcome} where {marked};

-- name: discard_held
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, state, handler, reason,
                       last_error)
select number, id, {now}, @owner, attempts, expiries, requeues, 3, handler, @reason, last_error
from {work} where {held};
delete from {work} where {held};

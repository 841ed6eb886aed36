-- By the end of their deliveries, prune finds the messages that may go; a delivery writes to it once, when it ends.
create index {name:outcome_finished} on {outcome} (finished_at, number)
  where state in (1, 3) or (state = 4 and (delivery_id is not null or reason is not null));

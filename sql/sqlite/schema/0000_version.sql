-- The applied scripts, per box: migrations by number.
create table if not exists {version} (
  box        text not null collate nocase,  -- as SQLite compares the names of tables
  name       text not null,
  version    integer,
  hash       text not null,
  applied_at integer not null default (unixepoch() * 1000000),
  primary key (box, name)
) without rowid;

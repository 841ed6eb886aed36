-- The applied scripts, per box: migrations by number, functions by the hash of their text.
create table if not exists {version} (
  box        text collate "C" not null,
  name       text collate "C" not null,
  version    int,
  hash       text not null,
  applied_at timestamptz not null default now(),
  primary key (box, name)
);

"""Where a daemon's messages lie, seen and held up from beside it."""
import contextlib
import os
import random
import sqlite3
import subprocess
import time
import uuid

from dead_letters import make_dead

DONE = "select m.id from {0}outbox_message m join {0}outbox_outcome o on o.number = m.number " \
       "where o.state = 1"

LEASED = "select m.id from outbox_message m join outbox_work w on w.number = m.number " \
         "where w.owner is not null"

# Numbers are left out when errors are compared.
LETTERS = "'error ' || " + " || ".join(
    f"{{0}}(97 + cast(number / {26 ** i} % 26 as int))" for i in range(4))


class SqliteStore:
    config = ""
    environment = {}

    def __init__(self, folder):
        self.file = folder / "twinbox.db"

    def done(self):
        """The ids of what is recorded as done."""
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            return {id for id, in database.execute(DONE.format(""))}

    def leased(self):
        """The ids of what a worker holds."""
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            return {id for id, in database.execute(LEASED)}

    def payload(self, key):
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            return database.execute("select payload from outbox_message where id = ?",
                                    (key,)).fetchone()[0]

    def make_dead(self, count, **options):
        make_dead(self.file, count, **options)

    @contextlib.contextmanager
    def stuck_at(self, number):
        """Whoever sends this dead letter again gets no further, in the midst of a transaction."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database:
            database.execute("create view endless as with recursive n(i) as "
                             "(select 1 union all select i + 1 from n) select i from n")
            database.execute("create trigger stuck before delete on outbox_outcome "
                             f"when old.number = {number} begin "
                             "select count(*) from endless; end")
            yield
            database.execute("drop trigger stuck")
            database.execute("drop view endless")

    def end_leases(self):
        """As if their time were over."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database, database:
            database.execute("update outbox_work set lease_until = 0 where lease_until is not null")

    def tell_worker(self, name, done, failed):
        """As a dispatcher of another process does."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database, database:
            now = time.time_ns() // 1000
            database.execute("insert into outbox_worker (owner, name, version, started_at, seen_at, done, failed) "
                             "values (?, ?, '1', ?, ?, ?, ?)",
                             (uuid.uuid4().bytes, name, now, now, done, failed))

    def make_open(self, count):
        """Open messages of as many topics."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database, database:
            now = time.time_ns() // 1000
            for n in range(count):
                number = database.execute(
                    "insert into outbox_message (created_at, last_seen_at, content_version, source, id,"
                    " topic, payload) values (?, ?, 1, '-', ?, ?, 'x')",
                    (now, now, f"open-{n}", f"open.{n:06}")).lastrowid
                database.execute("insert into outbox_work (number, visible_at) values (?, ?)",
                                 (number, now))

    def postpone_for_days(self, id, days):
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database, database:
            database.execute("update outbox_work set visible_at = visible_at + ? where number = "
                             "(select number from outbox_message where id = ?)",
                             (days * 86_400_000_000, id))

    def make_errors_differ(self):
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as database, database:
            database.execute(f"update outbox_outcome set last_error = {LETTERS.format('char')}")

    def remove(self):
        """Goes with its folder."""

    @contextlib.contextmanager
    def held(self):
        """Nothing can be written meanwhile."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60,
                                                isolation_level=None)) as database:
            database.execute("begin immediate")
            yield
            database.execute("rollback")


class PostgresStore:
    url = os.environ.get("TWINBOX_TEST_POSTGRES")

    def __init__(self, _):
        self.schema = f"kill_{os.getpid()}_{random.randrange(10**9)}"
        self.config = f'[store.main]\nurl = "env:PLACE"\nschema = "{self.schema}"\n' \
                      '[access]\ntoken_file = "tokens"\n'
        self.environment = {"PLACE": self.url}

    def ask(self, sql):
        return subprocess.run(["psql", "-XAtq", self.url, "-c", sql], check=True, text=True,
                              capture_output=True).stdout.split()

    def payload(self, key):
        return " ".join(self.ask(f"select convert_from(payload, 'utf8') from "
                                 f"{self.schema}.outbox_message where id = '{key}'"))

    def make_dead(self, count, error="connection refused", begin=0):
        self.ask(f"""
            with made as (
              insert into {self.schema}.outbox_message
                (created_at, last_seen_at, content_version, source, id, topic, payload)
              select now(), now(), 1, '-', 'dead-' || {begin} + n, 't0', 'x'
              from generate_series(1, {count}) n returning number)
            insert into {self.schema}.outbox_outcome
              (number, finished_at, attempts, state, reason, last_error)
            select number, now(), 10, 2, 'max_attempts', '{error} by host ' || number from made""")

    def make_open(self, count):
        self.ask(f"""
            with made as (
              insert into {self.schema}.outbox_message
                (created_at, last_seen_at, content_version, source, id, topic, payload)
              select now(), now(), 1, '-', 'open-' || n, 'open.' || lpad(n::text, 6, '0'), 'x'
              from generate_series(1, {count}) n returning number)
            insert into {self.schema}.outbox_work (number, visible_at)
            select number, now() from made""")

    def postpone_for_days(self, id, days):
        self.ask(f"update {self.schema}.outbox_work set visible_at = visible_at + interval '{days} days' "
                 f"where number = (select number from {self.schema}.outbox_message where id = '{id}')")

    def make_errors_differ(self):
        self.ask(f"update {self.schema}.outbox_outcome set last_error = {LETTERS.format('chr')}")

    def stuck_at(self, number):
        return self.transaction(f"update {self.schema}.outbox_outcome set attempts = attempts "
                                f"where number = {number}")

    def end_leases(self):
        self.ask(f"update {self.schema}.outbox_work set lease_until = now() "
                 "where lease_until is not null")

    def tell_worker(self, name, done, failed):
        self.ask(f"insert into {self.schema}.outbox_worker values (gen_random_uuid(), '{name}', "
                 f"'1', now(), now(), {done}, {failed})")

    def remove(self):
        self.ask(f"set client_min_messages = error; drop schema {self.schema} cascade")

    def done(self):
        return set(self.ask(DONE.format(self.schema + ".")))

    @contextlib.contextmanager
    def transaction(self, sql):
        """Open, with this statement in it, until the end of the block."""
        with subprocess.Popen(["psql", "-XAtq", self.url], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as session:
            session.stdin.write(f"begin;\n{sql};\nselect 'there';\n")
            session.stdin.flush()
            assert session.stdout.readline() == "there\n"
            yield
            session.stdin.close()

    def held(self):
        return self.transaction(f"lock table {self.schema}.outbox_outcome in exclusive mode")

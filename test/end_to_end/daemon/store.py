"""Where a daemon's messages lie, seen and held up from beside it."""
import contextlib
import os
import random
import sqlite3
import subprocess

DONE = "select m.id from {0}outbox_message m join {0}outbox_outcome o on o.number = m.number " \
       "where o.state = 1"


class SqliteStore:
    config = ""
    environment = {}

    def __init__(self, folder):
        self.file = folder / "twinbox.db"

    def done(self):
        """The ids of what is recorded as done."""
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            return {id for id, in database.execute(DONE.format(""))}

    def payload(self, key):
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            return database.execute("select payload from outbox_message where id = ?",
                                    (key,)).fetchone()[0]

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

"""Dead letters by the thousand, written into the file of a store while nobody serves it."""
import sqlite3
import time


def make_dead(file, count, topics=1, error="connection refused", begin=0):
    """`count` dead letters of the topics t0, t1, …; numbers follow what is there."""
    database = sqlite3.connect(file)
    now = int(time.time() * 1e6)
    with database:
        first = database.execute(
            "select coalesce(max(number), 0) + 1 from outbox_message").fetchone()[0]
        rows = range(first, first + count)
        database.executemany(
            "insert into outbox_message (number, created_at, last_seen_at, content_version, source,"
            " id, topic, payload) values (?, ?, ?, 1, '-', ?, ?, ?)",
            ((n, now, now, f"dead-{begin + n}", f"t{n % topics}", b"x" * 200) for n in rows))
        database.executemany(
            "insert into outbox_outcome (number, delivery_id, finished_at, attempts, state, reason,"
            " last_error) values (?, ?, ?, 10, 2, 'max_attempts', ?)",
            ((n, n, now, f"{error} by host {n}") for n in rows))
    database.close()

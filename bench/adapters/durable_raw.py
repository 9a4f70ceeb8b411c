"""The baseline: one row of about 300 bytes and one commit per step, write-ahead log, no engine."""

import itertools
import sqlite3

DISTRIBUTION = "sqlite3"
MODES = ["full", "normal"]
UNIT = "INSERT of one row and COMMIT"
PAYLOAD = '{"call":"add","args":{"a":1,"b":2},"result":3,"pad":"' + "x" * 250 + '"}'
_runs = itertools.count()


async def begin(mode, directory):
    db = sqlite3.connect(f"{directory}/raw.db", isolation_level=None)
    assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    db.execute(f"PRAGMA synchronous={mode.upper()}")
    assert db.execute("PRAGMA synchronous").fetchone() == ({"normal": 1, "full": 2}[mode],)
    db.execute(
        "CREATE TABLE log (run INTEGER, seq INTEGER, kind TEXT, body TEXT,"
        " PRIMARY KEY (run, seq)) WITHOUT ROWID"
    )
    return db


async def run(db, steps):
    run_id = next(_runs)
    for seq in range(steps):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO log VALUES (?, ?, ?, ?)", (run_id, seq, "settled", PAYLOAD))
        db.execute("COMMIT")


async def end(db):
    db.close()

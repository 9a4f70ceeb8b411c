"""Agno behind its own server, with its own SQLite store and that store's own settings."""

import os
from pathlib import Path

from agno.db.sqlite import AsyncSqliteDb

from bench.adapters import sse_agno

app = sse_agno.serve(db=AsyncSqliteDb(db_file=str(Path(os.environ["BENCH_SCRATCH"], "agno.db"))))

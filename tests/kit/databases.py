"""Databases for tests: a fresh one for each, SQLite in a file or Postgres in one server a run."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

PROGRAM = Path(__file__).with_name("postgres.py")
NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a Postgres that is there for this run alone."""
    command = [sys.executable, "-W", "ignore", str(PROGRAM)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """The address of an empty database on it."""
    return empty_database(postgres)


def empty_database(postgres: str) -> str:
    """Make a database on a server, and return its address."""
    name = f"test_{next(NUMBERS)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_url(postgres).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a file that is not there yet."""
    return f"sqlite:///{tmp_path}/data/penstock.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, on one and the other."""
    return str(request.getfixturevalue(f"{request.param}_url"))

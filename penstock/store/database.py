"""Opens a database and runs reads and writes on it; the only file that creates engines.

Guarantees: all writes go through one thread (`writer`); reads use connections that cannot write;
with `synchronous = FULL` a committed unit survives a power cut.

How it works. SQLite runs in WAL mode, so readers see the last commit while a write is in progress.
Readers are a pool of `limits.readers` threads with a connection each. A SQLite database in memory
belongs to one connection, so its reads go through the writer. Postgres uses the same two roles,
with timeouts that release locks of a frozen process.

Relies on: only this file opens connections (gates in pyproject.toml).
Proof: tests/store/test_database.py, and the crash tests of docs/durability.md.
"""

import asyncio
import logging
import os
import platform
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum, auto
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool, Pool, QueuePool
from sqlalchemy.util import LRUCache

from penstock.core.errors import ConfigError, StoreClosed
from penstock.core.exhaustion import disk_failure, raise_exhaustion
from penstock.core.ids import new_secret
from penstock.core.limits import Limits
from penstock.store.failures import failure_of, is_undecodable
from penstock.store.schema import prepare, rewrite
from penstock.store.writer import Writer

log = logging.getLogger(__name__)

Done = TypeVar("Done")

IN_MEMORY = {None, "", ":memory:"}
_CACHE_KIB = 512
"""Page cache per SQLite connection. Small, because the operating system caches the file once for
all connections."""
_CHECKPOINT_PAGES = 4000
"""WAL checkpoint threshold (16 MB). The commit that reaches it runs the checkpoint and blocks other
writers.

Four times SQLite's default halves the work: the last pages of active logs are written to the WAL
many times, but copied to the database only once per checkpoint.
"""
_COMPILED_STATEMENTS = 500
"""Statements of SQLite that a process keeps compiled."""
_OLDEST_SQLITE = (3, 35, 0)
_DRIVERS = {"postgresql": "postgresql+psycopg", "sqlite": "sqlite"}


class Database:
    """An open database: one writer, a few readers."""

    def __init__(
        self,
        url: URL,
        engine: Engine,
        limits: Limits,
        *,
        readers: Engine | None,
    ) -> None:
        self.dialect = url.get_backend_name()
        """`sqlite` or `postgresql`."""
        self.place = place_of(url)
        """The name of the database in messages, without its password."""
        self.file = file_of(url)
        """The file of SQLite; None for Postgres and in memory."""
        self.folder = None if self.file is None else self.file.parent
        self.limits = limits
        self.writer = Writer(engine.connect, self.place)
        self.secret = b""
        """32 random bytes, stored when the database was created."""
        self._engine = engine
        self._readers = readers
        self._is_file = readers is not None and self.dialect == "sqlite"
        self._holds_erased = False
        self._scrubbing = asyncio.Lock()
        self._threads = ThreadPoolExecutor(limits.readers, thread_name_prefix="penstock-reader")
        self._closed = False

    async def write(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Run the unit in a transaction; its effects are on disk when this returns.

        The unit is a pure function of its connection: it may run twice. `order` is the id of the
        log that it writes, if it writes one.
        """
        return await self.writer.write(unit, order=order)

    async def read(self, unit: Callable[[Connection], Done]) -> Done:
        """Run the unit on a connection that cannot write. Raises StoreError."""
        if self._closed:
            raise StoreClosed
        if self._readers is None:
            return await self.write(unit)
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(self._threads, self._read, self._readers, unit)
        except RuntimeError as error:  # no thread could be started
            raise_exhaustion(error)
            raise
        return await reading

    async def try_write(self) -> None:
        """Rewrite an existing value to check that writes work. Raises StoreError."""
        await self.write(rewrite)

    async def scrub(self) -> bool:
        """Overwrite everything that was deleted before this call, in the files of SQLite.

        SQLite overwrites pages when rows are deleted (`secure_delete`), but keeps copies where it
        split pages. So this rewrites the file if it has at most `limits.compact_bytes`, and empties
        the write-ahead log, which contains earlier versions of pages. Concurrent calls share the
        work. If another process keeps the database busy for `limits.busy_seconds`, this logs a
        warning and returns False; call it again later. Postgres overwrites by itself (VACUUM).

        Also empties the caches of compiled statements: each keeps the values of its first use.
        """
        for engine in filter(None, (self._engine, self._readers)):
            shared = engine.get_execution_options().get("compiled_cache")
            shared.clear() if shared is not None else engine.clear_compiled_cache()
        if not self._is_file:
            return True
        self._holds_erased = True
        async with self._scrubbing:
            if self._holds_erased:
                self._holds_erased = False  # set again by deletions during the work
                is_done = False
                try:
                    is_done = await asyncio.to_thread(self._scrub)
                finally:
                    if not is_done:
                        self._holds_erased = True  # the calls that wait for the lock try again
                return is_done
        return True

    async def rewrite(self) -> bool:
        """Rewrite the file of SQLite, whatever its size; False if another process is in the way.

        It takes about 10 ms per MiB, as much free space as the file, and blocks other writers.
        """
        return not self._is_file or await asyncio.to_thread(self._scrub, is_large=True)

    async def close(self) -> None:
        """Commit everything that was submitted, and close every connection."""
        self._closed = True
        if self._readers is not None:
            await asyncio.to_thread(self._threads.shutdown)
            self._readers.dispose()
        await self.writer.close()

    def _scrub(self, *, is_large: bool = False) -> bool:
        consequence = "its files may contain erased rows until the next attempt"
        try:
            with self._engine.connect() as connection:
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
                size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
                if is_large or pages * size <= self.limits.compact_bytes:
                    connection.exec_driver_sql("VACUUM")
                is_busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                if not is_busy.scalar_one():
                    return True
                log.warning("%s: another connection reads it; %s", self.place, consequence)
        except DBAPIError as error:
            log.warning("%s: %s; %s", self.place, error.orig, consequence)
        return False

    def _read(self, readers: Engine, unit: Callable[[Connection], Done]) -> Done:
        try:
            with readers.connect() as connection:
                return unit(connection)
        except DBAPIError as error:
            if is_undecodable(error):
                with readers.connect() as connection, _any_bytes(connection):
                    return unit(connection)
            if failure := failure_of(error, self.place):
                raise failure from error
            raise


class Opening(Enum):
    """How a database is opened."""

    USUAL = auto()
    AS_IT_IS = auto()
    """Nothing is created or upgraded, and the secret is not read: to copy it."""
    TO_MOVE = auto()
    """Also if it is being moved, or was moved to another place."""


async def open_database(
    url: str,
    *,
    synchronous: str = "FULL",
    limits: Limits | None = None,
    how: Opening = Opening.USUAL,
) -> Database:
    """Connect, and create or upgrade the tables.

    `synchronous` is SQLite's setting: with FULL a commit survives a power cut, with NORMAL only a
    crash of the process. Raises ConfigError or a StoreError.
    """
    where, limits = parse_url(url), limits or Limits()
    if how is not Opening.AS_IT_IS:
        _make_directory(where)
    in_memory = where.get_backend_name() == "sqlite" and where.database in IN_MEMORY
    engine = _engine(where, limits, synchronous)
    readers = None if in_memory else _engine(where, limits, None)
    database = Database(where, engine, limits, readers=readers)
    if how is Opening.AS_IT_IS:
        return database
    secret = new_secret()
    unit = partial(prepare, place=database.place, secret=secret, is_usual=how is Opening.USUAL)
    try:
        database.secret = await database.write(unit)
    except BaseException:
        await database.close()
        raise
    return database


@contextmanager
def _any_bytes(connection: Connection) -> Iterator[None]:
    """Let SQLite return texts that are not UTF-8, so that only their row fails to decode.

    Otherwise one such text fails the whole statement, with all other rows of the page.
    """
    driver: Any = connection.connection.dbapi_connection
    driver.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = str


def place_of(url: URL) -> str:
    """Return the name of a database for messages, without its password."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    return url.render_as_string(hide_password=True)


def parse_url(url: str) -> URL:
    """Return the address of a database. Raises ConfigError."""
    try:
        parsed = make_url(url)
        driver = _DRIVERS.get(parsed.get_backend_name())
    except (ArgumentError, NoSuchModuleError):
        driver, parsed = None, None
    if driver is None or parsed is None:
        raise ConfigError(
            f"database_url must be sqlite:///FILE or postgresql://USER@HOST/NAME, found {url!r}"
        )
    if driver == "sqlite" and sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise ConfigError(f"SQLite 3.35 or newer is needed, found {sqlite3.sqlite_version}")
    return parsed.set(drivername=driver)


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for Postgres and in memory."""
    if url.get_backend_name() != "sqlite" or url.database in IN_MEMORY or "uri" in url.query:
        return None
    return Path(str(url.database))


def _make_directory(url: URL) -> None:
    file = file_of(url)
    if file is None:
        return
    directory = file.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"the directory {str(directory)!r} cannot be made"
        raise disk_failure(error, message) from error


def _engine(url: URL, limits: Limits, synchronous: str | None) -> Engine:
    """Return the writer's engine; with `synchronous` None, the engine of the readers."""
    is_reader = synchronous is None
    if url.get_backend_name() == "postgresql":
        return _postgres(url, limits, is_reader=is_reader)
    engine = _sqlite(url, limits, is_reader=is_reader)

    def set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("lower", 1, _lower, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if is_reader:
            connection.execute("PRAGMA query_only = ON")
        else:
            # works in a new file only, before anything is written; an old one takes it over when it
            # is rewritten
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_wal(connection)
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            # overwrites deleted rows with zeros; the default depends on how SQLite was built
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA synchronous = {synchronous or 'NORMAL'}")

    event.listen(engine, "connect", set_up)
    return engine


def _sqlite(url: URL, limits: Limits, *, is_reader: bool) -> Engine:
    """Return an engine that shares its compiled statements with every other one of SQLite.

    `create_engine` makes a dialect and a cache for each engine, so the readers would compile again
    what the writer has compiled, and so would each further database of the process. Compiling a
    statement takes ten times as long as running it.
    """
    dialect, compiled = _sqlite_dialect()
    arguments, options = dialect.create_connect_args(url)
    own = {"check_same_thread": False, "isolation_level": None, "timeout": limits.busy_seconds}
    connect = partial(dialect.connect, *arguments, **{**options, **own})
    pool: Pool = NullPool(connect, dialect=dialect)
    if is_reader:
        pool = QueuePool(
            connect, limits.readers, max_overflow=0, reset_on_return=None, dialect=dialect
        )
    return Engine(pool, dialect, url, execution_options={"compiled_cache": compiled})


@cache
def _sqlite_dialect() -> tuple[Dialect, LRUCache[Any, Any]]:
    engine = create_engine("sqlite://", poolclass=NullPool)
    engine.connect().close()  # the dialect reads the version of SQLite
    return engine.dialect, LRUCache(_COMPILED_STATEMENTS)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, also if several processes do so at once.

    The busy timeout does not apply here: the switch starts as a reader, and SQLite refuses a reader
    at once if there is a writer. `BEGIN IMMEDIATE` does wait, and the writer is most likely another
    process that makes the same switch.
    """
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return  # also if the database has no WAL, as in memory


def _postgres(url: URL, limits: Limits, *, is_reader: bool) -> Engine:
    options: dict[str, Any] = {"poolclass": NullPool}
    if is_reader:
        options = {
            "poolclass": QueuePool,
            "pool_size": limits.readers,
            "max_overflow": 0,
            "pool_reset_on_return": None,
            "isolation_level": "AUTOCOMMIT",
        }
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{place_of(url)} needs {error.name!r}, which is not installed:"
            " pip install 'penstock[postgres]'"
        ) from error
    wait = int(1000 * limits.busy_seconds)
    # `penstock move` must be the only process
    name = f"penstock {os.getpid()} {platform.node()}".replace("'", "")[:63]
    settings = ["default_transaction_read_only = on"]
    if not is_reader:
        # a process that is frozen inside a transaction must not block the others forever
        settings = [f"lock_timeout = {wait}", f"idle_in_transaction_session_timeout = {2 * wait}"]

    def set_up(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        for setting in (f"application_name = '{name}'", *settings):
            cursor.execute(f"SET {setting}")
        cursor.close()
        connection.commit()

    event.listen(engine, "connect", set_up)
    return engine


def _lower(text: str | None) -> str | None:
    """Lower every letter; SQLite's own function handles ASCII only."""
    return None if text is None else str(text).lower()

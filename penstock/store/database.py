"""The one door to a database: the only file that creates engines."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool, QueuePool

from penstock.core.errors import ConfigError, StoreClosed
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.ids import new_secret
from penstock.core.limits import Limits
from penstock.store.failures import disk_failure, failure_of, is_undecodable
from penstock.store.schema import prepare, rewrite
from penstock.store.writer import Writer

log = logging.getLogger(__name__)

Done = TypeVar("Done")

IN_MEMORY = {None, "", ":memory:"}
_CACHE_KIB = 512
"""Of one SQLite connection: the system keeps the file in memory anyway, once for all of them."""
_CHECKPOINT_PAGES = 4000
"""Of the write-ahead log, 16 MB: whose commit fills it folds it in, and all wait for that.

The tails of logs at work are in it again and again: four times as long, it is half the work.
"""
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
        """What messages call it; without its password."""
        self.folder = _folder_of(url)
        """Where it lies on this machine, if it does."""
        self.limits = limits
        self.writer = Writer(engine.connect, self.place, limits)
        self.secret = b""
        """32 random bytes that this database has kept since it was made."""
        self._engine = engine
        self._readers = readers
        self._is_file = readers is not None and self.dialect == "sqlite"
        self._holds_erased = False
        self._scrubbing = asyncio.Lock()
        self._threads = ThreadPoolExecutor(limits.readers, thread_name_prefix="penstock-reader")
        self._closed = False

    async def write(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Do the work at once or not at all; it is on disk when this returns.

        The unit is a pure function of its connection: it may run twice. `order` names the log that
        it is about, if it is about one.
        """
        return await self.writer.write(unit, order=order)

    async def read(self, unit: Callable[[Connection], Done]) -> Done:
        """Look something up on a connection that cannot write."""
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
        """Write what is there already, to learn whether anything can be. Raises StoreError."""
        await self.write(rewrite)

    async def scrub(self) -> bool:
        """Overwrite what was deleted before this call, in the files of a SQLite database.

        The pages are overwritten when rows are deleted (`secure_delete`). This rewrites a file of
        at most `limits.compact_bytes`, because SQLite leaves copies where it split pages, and
        empties the write-ahead log, which holds pages as they were. Calls at the same time share
        the work. What another process keeps busy for `limits.busy_seconds` is left to the next
        call, with a warning, and False. Postgres overwrites by itself, in time (VACUUM).

        The caches of compiled statements are emptied: each keeps the values it was first used with.
        """
        for engine in filter(None, (self._engine, self._readers)):
            engine.clear_compiled_cache()
        if not self._is_file:
            return True
        self._holds_erased = True
        async with self._scrubbing:
            if self._holds_erased:
                self._holds_erased = False  # what is deleted from now on has to be overwritten, too
                is_done = False
                try:
                    is_done = await asyncio.to_thread(self._scrub)
                finally:
                    if not is_done:
                        self._holds_erased = True  # for those that would have shared it
                return is_done
        return True

    async def close(self) -> None:
        """Commit what was submitted, and give every connection back."""
        self._closed = True
        if self._readers is not None:
            await asyncio.to_thread(self._threads.shutdown)
            self._readers.dispose()
        await self.writer.close()

    def _scrub(self) -> bool:
        left = "rows that were erased may be in its files until it is tried again"
        try:
            with self._engine.connect() as connection:
                pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
                size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
                if pages * size <= self.limits.compact_bytes:
                    connection.exec_driver_sql("VACUUM")
                folded = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                if not folded.scalar_one():
                    return True
                log.warning("%s: somebody reads; %s", self.place, left)
        except DBAPIError as error:
            log.warning("%s: %s; %s", self.place, error.orig, left)
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


async def open_database(
    url: str, *, synchronous: str = "FULL", limits: Limits | None = None
) -> Database:
    """Connect, and create or upgrade the tables.

    `synchronous` is SQLite's: FULL keeps what was committed through a power cut, NORMAL only
    through a crash of the process. Raises ConfigError, or the StoreError that says what is wrong.
    """
    where, limits = _parse(url), limits or Limits()
    _make_directory(where)
    in_memory = where.get_backend_name() == "sqlite" and where.database in IN_MEMORY
    engine = _engine(where, limits, synchronous)
    readers = None if in_memory else _engine(where, limits, None)
    database = Database(where, engine, limits, readers=readers)
    secret = new_secret()
    try:
        database.secret = await database.write(
            lambda connection: prepare(connection, database.place, secret)
        )
    except BaseException:
        await database.close()
        raise
    return database


@contextmanager
def _any_bytes(connection: Connection) -> Iterator[None]:
    """Let SQLite return texts that are not UTF-8: the row alone does not read back then.

    One such text in a page fails the whole statement else, with the rows of everybody.
    """
    driver: Any = connection.connection.dbapi_connection
    driver.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = str


def place_of(url: URL) -> str:
    """Return what messages call a database."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    return url.render_as_string(hide_password=True)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        driver = _DRIVERS.get(parsed.get_backend_name())
    except (ArgumentError, NoSuchModuleError):
        driver, parsed = None, None
    if driver is None or parsed is None:
        raise ConfigError(
            f"database_url is sqlite:///FILE or postgresql://USER@HOST/NAME, found {url!r}"
        )
    if driver == "sqlite" and sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise ConfigError(f"SQLite 3.35 or newer is needed, found {sqlite3.sqlite_version}")
    return parsed.set(drivername=driver)


def _folder_of(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite" or url.database in IN_MEMORY or "uri" in url.query:
        return None
    return Path(str(url.database)).parent


def _make_directory(url: URL) -> None:
    directory = _folder_of(url)
    if directory is None:
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        said = f"the directory {str(directory)!r} cannot be made"
        raise disk_failure(error, said) from error


def _engine(url: URL, limits: Limits, synchronous: str | None) -> Engine:
    """Return the writer's engine, or with None the readers'."""
    is_reader = synchronous is None
    options: dict[str, Any] = {"poolclass": NullPool}
    if is_reader:
        options = {
            "poolclass": QueuePool,
            "pool_size": limits.readers,
            "max_overflow": 0,
            "pool_reset_on_return": None,
        }
    if url.get_backend_name() == "postgresql":
        return _postgres(url, limits, options, is_reader=is_reader)
    own = {"check_same_thread": False, "isolation_level": None, "timeout": limits.busy_seconds}
    engine = create_engine(url, connect_args=own, **options)

    def set_up(connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("lower", 1, _lower, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if is_reader:
            connection.execute("PRAGMA query_only = ON")
        else:
            _use_wal(connection)
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            # what is deleted is overwritten with zeros: not every SQLite is built so
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA synchronous = {synchronous or 'NORMAL'}")

    event.listen(engine, "connect", set_up)
    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, however many processes do so at once.

    SQLite does not wait for its busy timeout here: the switch begins as a reader, and a reader that
    finds a writer is refused at once. `BEGIN IMMEDIATE` does wait, and the writer is most likely
    another process that makes the same switch.
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
            return  # also where there is no such log, as in memory


def _postgres(url: URL, limits: Limits, options: dict[str, Any], *, is_reader: bool) -> Engine:
    if is_reader:
        options["isolation_level"] = "AUTOCOMMIT"
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{place_of(url)} needs {error.name!r}, which is not installed:"
            " pip install 'penstock[postgres]'"
        ) from error
    wait = int(1000 * limits.busy_seconds)
    settings = ["default_transaction_read_only = on"]
    if not is_reader:
        # a process that is frozen inside a transaction must not hold the others for ever
        settings = [f"lock_timeout = {wait}", f"idle_in_transaction_session_timeout = {2 * wait}"]

    def set_up(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(f"SET {setting}")
        cursor.close()
        connection.commit()

    event.listen(engine, "connect", set_up)
    return engine


def _lower(text: str | None) -> str | None:
    """Lower every letter: SQLite's own function knows ASCII alone."""
    return None if text is None else str(text).lower()

"""Creates the tables of a new database, and starts the migrations of an old one.

Guarantees: several processes may open one new database at once: one creates the tables, the others
find them. A database of another program, or of a newer penstock, is refused and not changed.

How it works. All of it runs in one transaction. SQLite has one writer; on Postgres the transaction
takes an advisory lock first. A new database gets the tables of `tables.py` at once; Alembic is
loaded only if a migration has to run. Proof: tests/store/test_schema.py and test_upgrade.py.
"""

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Index,
    Inspector,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
)
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from penstock.core.errors import ConfigError, StoreCorrupt
from penstock.core.late import late
from penstock.store.tables import REVISION, installation, metadata

Upgrade = Callable[[Connection], None]

SECRET = "secret"  # noqa: S105
_STORED = "SELECT value FROM installation WHERE name = 'secret'"
_MARKS = "SELECT name, value FROM installation WHERE name IN ('moving', 'moved')"
_POSTGRES_LOCK = 7_072_616_001
"""The number is arbitrary, but the same for all processes of a database."""
_versions = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_statements: dict[str, tuple[str, ...]] = {}
"""The statements by dialect. Compiling them takes longer than executing them, so tests that open
many databases compile them once."""


def prepare(connection: Connection, place: str, secret: bytes, *, is_usual: bool = True) -> bytes:
    """Create or upgrade the tables. Return the secret of the database.

    `secret` is stored if the database has none yet. Must run inside one transaction. Unless
    `is_usual` is False, raises ConfigError for a database that is being moved or was moved.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})")
    inspector = inspect(connection)
    revision = _revision(connection, inspector)
    if revision is None:
        _create(connection, inspector, place)
    elif revision != REVISION:
        upgrade: Upgrade = late("penstock.store.upgrade:upgrade")
        upgrade(connection)
    if is_usual:
        _check_marks(connection, place)
    return _secret(connection, secret)


MOVING, MOVED = "moving", "moved"
"""Marks of a database that `penstock move` works on, or has moved; the value is the other place."""


def _check_marks(connection: Connection, place: str) -> None:
    """Raise ConfigError for a database that is being moved, or was moved to another place."""
    marks = marks_of(connection)
    if MOVED in marks:
        raise ConfigError(
            f"{place} was moved to {marks[MOVED]}: set database_url to that address. To come back:"
            " penstock move --to the address of this one"
        )
    if MOVING in marks:
        raise ConfigError(
            f"a move between {place} and {marks[MOVING]} is not complete. If `penstock move` does"
            " not run any more, run it again, or end it: penstock move --abort"
        )


def marks_of(connection: Connection) -> dict[str, str]:
    """Return the marks of a database, with the other place."""
    found = connection.exec_driver_sql(_MARKS).all()
    return {name: bytes(value).decode() for name, value in found}


def rewrite(connection: Connection) -> None:
    """Write the secret again unchanged: this fails if nothing can be written."""
    same = installation.update().where(installation.c.name == SECRET)
    connection.execute(same.values({installation.c.value: installation.c.value}))


def _revision(connection: Connection, inspector: Inspector) -> str | None:
    if not inspector.has_table("alembic_version"):
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if revision is None else str(revision)


def _create(connection: Connection, inspector: Inspector, place: str) -> None:
    if foreign := sorted(set(metadata.tables) & set(inspector.get_table_names())):
        raise StoreCorrupt(
            f"{place} has tables of another program ({', '.join(foreign)}); "
            "use a database of its own for penstock"
        )
    cursor, dialect = connection.connection.cursor(), connection.dialect
    if dialect.name not in _statements:
        _statements[dialect.name] = _compile(dialect)
    for statement in _statements[dialect.name]:
        cursor.execute(statement)
    cursor.close()


def _compile(dialect: Dialect) -> tuple[str, ...]:
    if dialect.name == "postgresql":
        _mark_partial_indexes()
    tables = metadata.sorted_tables
    elements: list[ExecutableDDLElement] = [
        *map(CreateTable, tables),
        *(CreateIndex(each) for table in tables for each in sorted(table.indexes, key=_name)),
        CreateTable(_versions, if_not_exists=True),
    ]
    revision = _versions.insert().values(version_num=REVISION)
    first = revision.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return (*(str(each.compile(dialect=dialect)) for each in elements), str(first))


def _name(index: Index) -> str:
    return str(index.name)


def _mark_partial_indexes() -> None:
    """Copy the conditions of partial indexes for Postgres.

    They are not in `tables.py`: an argument `postgresql_where` imports the dialect in every
    process, also with SQLite.
    """
    for table in metadata.tables.values():
        for index in table.indexes:
            where = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = where


def _secret(connection: Connection, secret: bytes) -> bytes:
    name, value = installation.c.name, installation.c.value
    stored = connection.exec_driver_sql(_STORED).first()
    if stored is None:
        connection.execute(installation.insert().values({name: SECRET, value: secret}))
        return secret
    # written again unchanged, so that a database without write access fails when it is opened
    same = installation.update().where(name == SECRET).values({value: stored.value})
    connection.execute(same)
    return bytes(stored.value)

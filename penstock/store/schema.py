"""The tables of an opened database: made when it is new, brought up to date when it is old."""

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

from penstock.core.errors import StoreCorrupt
from penstock.core.late import late
from penstock.store.statements import cursor_of
from penstock.store.tables import REVISION, installation, metadata

Upgrade = Callable[[Connection], None]

SECRET = "secret"  # noqa: S105
_KEPT = "SELECT value FROM installation WHERE name = 'secret'"
_POSTGRES_LOCK = 7_072_616_001
"""Any number, the same for all who open the database."""
_versions = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_spelled: dict[str, tuple[str, ...]] = {}
"""What makes the tables, by the name of the dialect: to spell it takes longer than to do it."""


def prepare(connection: Connection, place: str, secret: bytes) -> bytes:
    """Bring the tables to what this version wants; returns the secret that the database keeps.

    Runs inside one transaction, so that of two who open a new database one makes it.
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
    return _secret(connection, secret)


def rewrite(connection: Connection) -> None:
    """Write the secret again as it is, to learn whether anything can be written."""
    same = installation.update().where(installation.c.name == SECRET)
    connection.execute(same.values({installation.c.value: installation.c.value}))


def _revision(connection: Connection, inspector: Inspector) -> str | None:
    if not inspector.has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if found is None else str(found)


def _create(connection: Connection, inspector: Inspector, place: str) -> None:
    if taken := sorted(set(metadata.tables) & set(inspector.get_table_names())):
        raise StoreCorrupt(
            f"{place} has tables of another program ({', '.join(taken)}); give penstock its own"
        )
    cursor, dialect = cursor_of(connection), connection.dialect
    if dialect.name not in _spelled:
        _spelled[dialect.name] = _spell(dialect)
    for statement in _spelled[dialect.name]:
        cursor.execute(statement)
    cursor.close()


def _spell(dialect: Dialect) -> tuple[str, ...]:
    if dialect.name == "postgresql":
        _mark_partial_indexes()
    tables = metadata.sorted_tables
    made: list[ExecutableDDLElement] = [
        *map(CreateTable, tables),
        *(CreateIndex(each) for table in tables for each in sorted(table.indexes, key=_name)),
        CreateTable(_versions, if_not_exists=True),
    ]
    revision = _versions.insert().values(version_num=REVISION)
    first = revision.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return (*(str(each.compile(dialect=dialect)) for each in made), str(first))


def _name(index: Index) -> str:
    return str(index.name)


def _mark_partial_indexes() -> None:
    """Let Postgres have them too: to say so in the tables loads its dialect wherever they are."""
    for table in metadata.tables.values():
        for index in table.indexes:
            where = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = where


def _secret(connection: Connection, secret: bytes) -> bytes:
    """Return the secret; it is written again, to learn at once if nothing can be."""
    name, value = installation.c.name, installation.c.value
    kept = connection.exec_driver_sql(_KEPT).first()
    if kept is None:
        connection.execute(installation.insert().values({name: SECRET, value: secret}))
        return secret
    same = installation.update().where(name == SECRET).values({value: kept.value})
    connection.execute(same)
    return bytes(kept.value)

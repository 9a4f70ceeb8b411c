"""The tables of an opened database: made when it is new, brought up to date when it is old."""

from collections.abc import Callable

from sqlalchemy import Connection, Inspector, inspect, text

from penstock.core.errors import StoreCorrupt
from penstock.core.late import late
from penstock.store.tables import REVISION, installation, metadata

Upgrade = Callable[[Connection], None]

SECRET = "secret"  # noqa: S105
_POSTGRES_LOCK = 7_072_616_001
"""Any number, the same for all who open the database."""


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
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _create(connection: Connection, inspector: Inspector, place: str) -> None:
    if taken := sorted(set(metadata.tables) & set(inspector.get_table_names())):
        raise StoreCorrupt(
            f"{place} has tables of another program ({', '.join(taken)}); give penstock its own"
        )
    if connection.dialect.name == "postgresql":
        _mark_partial_indexes()
    metadata.create_all(connection, checkfirst=False)
    connection.execute(
        text(
            "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL,"
            " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(
        text("INSERT INTO alembic_version (version_num) VALUES (:revision)"),
        {"revision": REVISION},
    )


def _mark_partial_indexes() -> None:
    """Let Postgres have them too: to say so in the tables loads its dialect wherever they are."""
    for table in metadata.tables.values():
        for index in table.indexes:
            where = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = where


def _secret(connection: Connection, secret: bytes) -> bytes:
    """Return the secret; it is written again, to learn at once if nothing can be."""
    name, value = installation.c.name, installation.c.value
    kept = connection.execute(installation.select().where(name == SECRET)).first()
    if kept is None:
        connection.execute(installation.insert().values({name: SECRET, value: secret}))
        return secret
    same = installation.update().where(name == SECRET).values({value: kept.value})
    connection.execute(same)
    return bytes(kept.value)

"""Old databases are brought up to date; loaded late, because few starts need it."""

from pathlib import Path

from alembic.command import upgrade as run
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from penstock.core.errors import StoreTooNew

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that are missing, in the transaction of the connection.

    Raises StoreTooNew when the database has one that this version does not know.
    """
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        raise StoreTooNew(
            f"the database was made by a newer penstock: it is at revision {found!r}, this one"
            f" knows up to {scripts.get_current_head()!r}. Upgrade penstock; nothing was changed."
        )
    run(config, revision)

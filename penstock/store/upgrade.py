"""Runs the missing migrations of an old database; loaded late, because few starts need Alembic."""

from pathlib import Path

from alembic.command import upgrade as run
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from penstock.core.errors import StoreTooNew

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the missing migrations up to a revision, in the transaction of the connection.

    Raises StoreTooNew if this version does not know the revision of the database.
    """
    config = Config(attributes={"connection": connection})
    # the configuration parser would expand a percent sign in the path
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise StoreTooNew(
            f"the database was made by a newer penstock: it is at revision {current!r}, this one"
            f" knows up to {scripts.get_current_head()!r}. Upgrade penstock; nothing was changed."
        )
    run(config, revision)

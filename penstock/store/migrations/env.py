"""Where Alembic begins: on the connection that it is handed, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()

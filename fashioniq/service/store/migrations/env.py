"""Called by Alembic: runs migrations in the transaction of the connection that `Database` gives."""

from alembic import context

from fashioniq.service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()

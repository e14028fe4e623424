"""Versions of the tables."""

from pathlib import Path
from secrets import randbelow, token_bytes

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from fashioniq.files import UserError
from fashioniq.service.store.engine import clear_files, place_of
from fashioniq.service.store.tables import METADATA, secret


def update_schema(engine: Engine, create: bool) -> None:
    """Create the tables, or update them to the newest version.

    Raises UserError if they are of another version, if PostgreSQL stores texts in another encoding than UTF-8, and
    without `create` if there is no file of SQLite or there are no tables.
    """
    scripts = ScriptDirectory.from_config(_alembic())
    sqlite = engine.dialect.name == "sqlite"
    if sqlite and not create and not Path(engine.url.database or "").is_file():
        raise _missing("no such file", engine)
    with engine.connect() as connection:
        encoding = "UTF8" if sqlite else connection.exec_driver_sql("SHOW server_encoding").scalar()
        found = MigrationContext.configure(connection).get_current_revision()
    if encoding != "UTF8":  # of words of shoppers, it may lack letters
        raise UserError(
            f"expected a database with the encoding UTF8, found {encoding} in {place_of(engine)}; create "
            "one by `createdb NAME --encoding UTF8 --template template0`"
        )
    if found is None and not create:
        raise _missing("none of its tables", engine)
    if found == scripts.get_current_head():
        return
    if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
        raise UserError(
            f"expected a database of this version of fashioniq or an earlier one, found revision {found}; "
            "update fashioniq, or give a new one with --database"
        )
    with engine.execution_options(mode="write").begin() as connection:
        migrate(connection)
    clear_files(engine)  # the file itself says now which database it is


def _missing(found: str, engine: Engine) -> UserError:
    return UserError(
        f"expected a database of the service, found {found} in {place_of(engine)}; correct --database, "
        "or create the database by `fashioniq serve --run RUN`"
    )


def migrate(connection: Connection) -> None:
    """Create the tables, or update them to the newest version, in the transaction of the connection."""
    config = _alembic()
    config.attributes["connection"] = connection
    if MigrationContext.configure(connection).get_current_revision() is not None:
        command.upgrade(config, "head")
        return
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(secret.insert().values(epoch=0, value=token_bytes(32)))
    if connection.dialect.name == "sqlite":  # a file is told from others by it (sqlite_file.py)
        connection.exec_driver_sql(f"PRAGMA application_id = {1 + randbelow(2**31 - 1)}")
    command.stamp(config, "head")


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config

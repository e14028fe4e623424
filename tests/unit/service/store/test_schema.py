import re
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from fashioniq.files import UserError
from fashioniq.service.store import Store, Unavailable
from fashioniq.service.store.engine import engine_of
from fashioniq.service.store.schema import migrate
from fashioniq.service.store.tables import METADATA


@pytest.fixture
def connected(fresh_url):
    engine = engine_of(fresh_url)
    yield engine
    engine.dispose()


def schema(connection):
    found = inspect(connection)
    return {
        name: re.sub(
            " at 0x[0-9a-f]+",
            "",
            repr([found.get_columns(name), found.get_indexes(name), found.get_foreign_keys(name)]),
        )
        for name in found.get_table_names()
    }


def differences(connection):
    options = {"compare_type": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_migrations_of_the_first_version_give_the_tables_of_the_code(connected):
    first = Path(__file__).with_name("first_version.sql").read_text(encoding="utf-8")
    with connected.execution_options(mode="bare").connect() as connection:
        connection.connection.driver_connection.executescript(first)
    with connected.begin() as connection:
        migrate(connection)
        assert differences(connection) == []


def test_a_new_database_has_the_tables_of_the_code_and_is_not_changed_again(connected):
    with connected.begin() as connection:
        migrate(connection)
        assert differences(connection) == []
        made = schema(connection)
        migrate(connection)
        assert schema(connection) == made and "one_live_turn" in made["turn"]


def test_a_database_that_does_not_exist_is_not_created_to_be_read(connected, fresh_url):
    file = Path(connected.url.database) if connected.dialect.name == "sqlite" else None
    with pytest.raises(UserError, match="expected a database of the service, found n") as refused:
        Store.open(fresh_url, create=False)
    assert "\n" not in str(refused.value) and not (file and file.exists())
    with connected.begin() as connection:
        assert schema(connection) == {}
    with pytest.raises(UserError, match="found none of its tables"):
        Store.open(fresh_url, create=False)
    Store.open(fresh_url).close()
    Store.open(fresh_url, create=False).close()


def test_several_processes_create_the_tables_at_once(fresh_url, at_once, new_log):
    stores = at_once(*[lambda: Store.open(fresh_url)] * 4)
    new_log(stores[0]).start()
    for store in stores:
        assert store.session("s") is not None
        store.close()


def test_a_migration_that_fails_leaves_no_tables(connected):
    with pytest.raises(KeyError), connected.begin() as connection:
        migrate(connection)
        raise KeyError
    with connected.connect() as connection:
        assert schema(connection) == {}


def test_a_schema_of_another_version_is_refused_in_one_line(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(UserError, match="found revision 9999; update fashioniq") as refused:
        Store.open(url)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "service.db", "mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "oracle+none://x"]
)
def test_other_databases_are_refused(url):
    with pytest.raises(UserError, match="expected the URL of a database"):
        Store.open(url)


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path):
    (tmp_path / "text").write_text("not a database, but a text that is long enough to have a header" * 20)
    socket = f"postgresql+psycopg://shop@/shop?host={tmp_path}"
    for url in (f"sqlite:///{tmp_path}/text", f"sqlite:///{tmp_path}/none/service.db", socket):
        with pytest.raises(Unavailable) as refused:
            Store.open(url)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_store_all_letters_is_refused_in_one_line(server, administer, encoding):
    name = f"encoded{uuid4().hex}"
    administer(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(UserError, match=f"the encoding UTF8, found {encoding} in .*createdb") as refused:
        Store.open(server.format(name))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_password_among_the_parameters_of_the_url_is_not_told(fresh_url):
    with pytest.raises(UserError, match="none of its tables in postgresql") as refused:
        Store.open(f"{fresh_url}&password=geheim", create=False)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("place", ["url", "environment"])
def test_settings_of_the_operator_count_beside_those_of_the_service(fresh_url, place, monkeypatch):
    with create_engine(fresh_url).begin() as connection:
        connection.execute(text("CREATE SCHEMA own"))
    if place == "url":
        fresh_url += "&options=-csearch_path%3Down&application_name=search&connect_timeout=9"
    else:
        monkeypatch.setenv("PGOPTIONS", "-c search_path=own")
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with closing(Store.open(fresh_url)) as store, store.engine.connect() as connection:
        assert inspect(connection).has_table("turn", "own")
        assert not inspect(connection).has_table("turn", "public")
        assert connection.scalar(text("SHOW lock_timeout")) == "5s"
        assert connection.scalar(text("SHOW client_encoding")) == "UTF8"
        wait = connection.connection.driver_connection.info.get_parameters().get("connect_timeout")
        assert wait == ("9" if place == "url" else "5")


def test_a_file_that_may_not_be_written_is_named(tmp_path):
    (tmp_path / "service.db").mkdir()  # root may write any file
    with pytest.raises(Unavailable, match=rf"may write sqlite:///{tmp_path}/service.db and its folder$"):
        Store.open(f"sqlite:///{tmp_path}/service.db")

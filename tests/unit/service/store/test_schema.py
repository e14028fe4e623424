import re
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from fashioniq.files import UserError
from fashioniq.service.store import ExportRow, KeyReused, Store, Unavailable
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


def test_migrations_give_the_tables_of_the_code_and_change_nothing_again(connected):
    with connected.begin() as connection:
        migrate(connection)
        assert differences(connection) == []
        made = schema(connection)
        migrate(connection)
        assert schema(connection) == made and "one_live_turn" in made["turn"]


def test_earlier_training_data_keep_their_folder(connected):
    with connected.begin() as connection:
        migrate(connection, "0001")
        earlier = "INSERT INTO export (id, sha256, cut_at, rule, sessions) VALUES ('/learned', 'a', '2026-11-22', '{}', 1)"
        connection.execute(text(earlier))
        connection.execute(
            text("INSERT INTO export_session (export_id, subject_hmac) VALUES ('/learned', 'h')")
        )
        migrate(connection)
        assert connection.execute(text("SELECT id, folder FROM export")).all() == [("/learned", "/learned")]
        assert connection.execute(text("SELECT subject_hmac, removed_at FROM export_session")).all() == [
            ("h", None)
        ]


def test_hashes_of_earlier_requests_are_removed_or_get_a_secret(connected, fresh_url):
    with connected.begin() as connection:
        migrate(connection, "0004")
        for id, key in (("s", None), ("t", "key")):
            values = {"id": id, "key": key, "at": "2026-11-22 12:00:00"}
            connection.execute(
                text(
                    "INSERT INTO session (id, category, model, consent, consent_at, origin, idem_key, request_sha256, "
                    "created_at, last_at) VALUES (:id, 'dresses', 'm', 'none', :at, 'api', :key, 'hash', :at, :at)"
                ),
                values,
            )
            connection.execute(
                text(
                    "INSERT INTO turn (query_id, session_id, n, kind, word_ids, filters, shown, heard, eligible, took_ms, "
                    "idem_key, request_sha256, created_at) "
                    "VALUES (:id, :id, 1, 'says', '[]', '{}', '[]', '{}', 0, 0, :key, 'hash', :at)"
                ),
                values,
            )
    with closing(Store.open(fresh_url)) as store:
        assert store.repeated("t", "key", "hash").query_id == "t"
        with pytest.raises(KeyReused):
            store.repeated("t", "key", "other")
    with connected.connect() as connection:
        for table in ("session", "turn"):
            found = dict(connection.execute(text(f"SELECT idem_key, request_hmac FROM {table}")).all())
            assert found[None] is None and len(found["key"]) == 64


def test_earlier_products_keep_their_stock_and_later_ones_may_have_none(connected):
    added = (
        "INSERT INTO product (category, id, title, sizes, in_stock, updated_at, revision) "
        "VALUES ('dresses', '{}', '', '[]', {}, '2026-11-22', {})"
    )
    stocks = text("SELECT id, in_stock FROM product ORDER BY id")
    with connected.begin() as connection:
        migrate(connection, "0004")
        connection.execute(text(added.format("a", "true", 1)))
        connection.execute(text(added.format("b", "false", 2)))
        migrate(connection)
        connection.execute(text(added.format("c", "NULL", 3)))
        found = [(name, stock and bool(stock)) for name, stock in connection.execute(stocks)]
        assert found == [("a", True), ("b", False), ("c", None)]
        assert differences(connection) == []


def test_training_data_with_conversations_that_were_withdrawn_earlier_are_stale(
    connected, fresh_url, new_log
):
    with closing(Store.open(fresh_url)) as store:
        log = new_log(store)
        for id in ("s", "t"):
            log.start(id, consent="training")
        new = ExportRow(id="exp", folder="/exp", cut_at=store.now(), rule={}, sessions=2)
        store.add_export(new, ["s", "t"])
    with connected.begin() as connection:
        connection.execute(text("ALTER TABLE export_session DROP COLUMN withdrawn_at"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0007'"))
        connection.execute(text("UPDATE session SET consent = 'service' WHERE id = 's'"))
    with closing(Store.open(fresh_url)) as store:
        assert store.stale_exports() == [new] and store.forbidden("exp", ["s", "t"]) == {"s"}


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


def test_a_newer_schema_is_refused_in_one_line(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(UserError, match=r"found revision 9999; update fashioniq") as refused:
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

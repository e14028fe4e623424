import pytest
from sqlalchemy.exc import IntegrityError

from fashioniq.files import UserError
from fashioniq.service.store import ModelRow, ProductRow
from fashioniq.service.store.tables import category_model


@pytest.fixture
def product(clock):
    return lambda id, **details: ProductRow(category="dresses", id=id, updated_at=clock(), **details)


@pytest.fixture
def model(clock):
    def model(id, **details):
        made = {"category": "dresses", "folder": "runs/a", "run_sha256": id, "features": {"width": 8}}
        return ModelRow(id=id, gallery_size=60, registered_at=clock(), **made | details)

    return model


def test_products_are_created_and_replaced(store, product):
    details = {
        "title": "Navy dress",
        "price_minor": 5990,
        "currency": "EUR",
        "sizes": ["S", "M"],
        "group_id": "g",
    }
    assert store.add_products("dresses", [product("b", **details), product("a")]) == ["created", "created"]
    again = [product("a", in_stock=False), product("c"), product("c", title="last")]
    assert store.add_products("dresses", again) == ["updated", "created", "updated"]
    found = store.products("dresses")
    assert [one.id for one in found] == ["a", "b", "c"]
    assert [found[0].in_stock, found[1].sizes, found[2].title] == [False, ["S", "M"], "last"]
    assert store.products("shirts") == [] == store.add_products("dresses", [])
    many = [product(str(number)) for number in range(1_100)]
    assert (
        store.add_products("tops", many) + store.add_products("tops", many)
        == ["created"] * 1_100 + ["updated"] * 1_100
    )


def test_only_later_changes_are_returned(store, product, clock):
    store.add_products("dresses", [product("a"), product("b"), product("c")])
    store.add_products("shirts", [product("a")])
    seen = max(one.revision for one in store.products("dresses"))
    clock.move(hours=1)
    patched = store.patch_product("dresses", "b", price_minor=100, sizes=["L"])
    assert (patched.price_minor, patched.sizes, patched.updated_at) == (100, ["L"], clock())
    assert store.patch_product("dresses", "c", deleted_at=clock())
    changed = store.products("dresses", seen)
    assert [(one.id, one.deleted_at) for one in changed] == [("b", None), ("c", clock())]
    assert changed[1].revision > changed[0].revision > seen
    assert store.products("dresses", changed[1].revision) == []


def test_a_deleted_product_is_gone_until_it_is_added_again(store, product, clock):
    store.add_products("dresses", [product("a")])
    assert store.patch_product("dresses", "a", deleted_at=clock())
    assert not store.patch_product("dresses", "a", deleted_at=clock())
    assert store.patch_product("dresses", "a", in_stock=False) is None
    assert store.patch_product("dresses", "unknown", in_stock=False) is None
    assert store.add_products("dresses", [product("a")]) == ["created"]
    assert store.products("dresses")[0].deleted_at is None


def test_a_product_that_was_only_imported_is_stored_with_its_first_change(store, open_store, product, clock):
    imported, other = product("a", price_minor=5990, currency="EUR", sizes=["S"]), product("a", price_minor=1)
    patched = store.patch_product("dresses", "a", imported, in_stock=False)
    assert (patched.price_minor, patched.sizes, patched.in_stock, patched.revision) == (5990, ["S"], False, 1)
    assert open_store().patch_product("dresses", "a", other, sizes=["M"]).price_minor == 5990, (
        "the row is older"
    )
    assert store.patch_product("dresses", "a", other, deleted_at=clock())
    assert not store.patch_product("dresses", "a", other, deleted_at=clock())
    assert store.patch_product("dresses", "b", product("b"), deleted_at=clock())
    assert {one.id: one.deleted_at for one in store.products("dresses")} == {"a": clock(), "b": clock()}
    assert store.patch_product("dresses", "c", None, in_stock=False) is None


def test_unknown_stock_stays_unknown(store, product):
    patched = store.patch_product(
        "dresses", "a", product("a", in_stock=None), price_minor=100, currency="EUR"
    )
    assert (patched.price_minor, patched.in_stock) == (100, None)
    assert store.products("dresses")[0].in_stock is None
    assert store.patch_product("dresses", "a", in_stock=False).in_stock is False


def test_one_model_of_a_category_is_active_and_the_former_can_return(store, model, clock):
    for id in ("dresses@1", "dresses@2"):
        store.register_model(model(id))
        clock.move(days=1)
    store.register_model(model("shirts@1", category="shirts"))
    store.activate_model("shirts@1")
    assert store.active_model("dresses") is None and store.categories() == ["shirts"]
    for id, other in (("dresses@1", "dresses@2"), ("dresses@2", "dresses@1"), ("dresses@1", "dresses@2")):
        clock.move(days=1)
        assert store.activate_model(id) == store.active_model("dresses") == store.model(id)
        assert store.model(id).active_from == clock()
        assert store.model(other).active_from is None or store.model(other).retired_at == clock()
    assert [one.id for one in store.models("dresses")] == ["dresses@1", "dresses@2"]
    assert store.active_model("shirts").id == "shirts@1" and store.categories() == ["dresses", "shirts"]
    with pytest.raises(UserError, match="there is no model dresses@3"):
        store.activate_model("dresses@3")


def test_a_model_is_registered_once(store, model):
    store.register_model(model("dresses@1"))
    active = store.activate_model("dresses@1")
    moved = store.register_model(model("dresses@1", folder="runs/b"))
    assert moved == store.active_model("dresses") and moved.folder == "runs/b"
    assert moved.active_from == active.active_from
    with pytest.raises(UserError, match="another run"):
        store.register_model(model("dresses@1", run_sha256="changed"))
    assert store.model("unknown") is None


def test_two_models_of_a_category_cannot_be_active(store, model, clock):
    for id in ("dresses@1", "dresses@2"):
        store.register_model(model(id))
    store.activate_model("dresses@1")
    second = category_model.update().where(category_model.c.id == "dresses@2").values(active_from=clock())
    with pytest.raises(IntegrityError):
        store.write(lambda connection: connection.execute(second))
    assert store.active_model("dresses").id == "dresses@1"


def test_a_key_is_found_by_its_secret_until_it_is_revoked(store):
    (id, secret), (other, _) = store.add_key(["search", "events"], {"turns": 5}), store.add_key(["admin"])
    key = store.find_key(secret)
    assert (key.id, key.scopes, key.limits) == (id, ["search", "events"], {"turns": 5})
    for wrong in ("", id, f"{id}.", secret + "0", secret.replace(id, other), "näh"):
        assert store.find_key(wrong) is None
    assert store.revoke_key(id) and not store.revoke_key(id) and not store.revoke_key("unknown")
    assert store.find_key(secret) is None


def test_the_secret_of_a_key_is_not_stored(store, engine, tmp_path):
    if engine == "postgresql":
        pytest.skip("reads the files of SQLite")
    _, secret = store.add_key(["search"])
    store.close()
    assert secret.partition(".")[2].encode() not in (tmp_path / "service.db").read_bytes()

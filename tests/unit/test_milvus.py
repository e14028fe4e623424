"""Search in Milvus, with milvus-lite in a folder of the test."""

import os
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from fashioniq.data.items import Items
from fashioniq.files import UserError
from fashioniq.loop import gallery as galleries, milvus
from fashioniq.loop.gallery import EngineError, Gallery
from fashioniq.loop.index import fingerprint
from fashioniq.loop.milvus import MilvusSearch, in_milvus

pytest.importorskip("milvus_lite")
COUNT, NAME = 600, "dresses@2026-11-23-abc123"


@pytest.fixture(scope="module")
def exact():
    torch.manual_seed(0)
    vectors_ND = normalize(torch.randn(COUNT, 16))
    vectors_ND[500:] = vectors_ND[:100]
    return Gallery(Items.without_attributes([str(n) for n in range(COUNT)], vectors_ND), vectors_ND)


@pytest.fixture(scope="module")
def query_QD(exact):
    return torch.cat([exact.vectors_ND[:20], torch.randn(20, 16, generator=torch.Generator().manual_seed(1))])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("milvus") / "milvus.db"


@pytest.fixture(scope="module")
def found(exact, query_QD, folder):
    made, facts = in_milvus(exact, f"milvus://{folder}", NAME, query_QD)
    assert facts["recall@10"] >= 0.95 and made.index.timeout == milvus.TIMEOUT
    made.index.timeout = milvus.PATIENCE  # a busy machine
    yield made
    made.index._client.close()


def test_answers_equal_those_of_exact_search_also_the_order_of_ties(exact, found, query_QD):
    for ours, theirs in zip(exact.top(query_QD, 10), found.top(query_QD, 10), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_filtered_answers_equal_those_of_exact_search(exact, found, query_QD, monkeypatch, share):
    monkeypatch.setattr(galleries, "EXACT_MOST", 20)
    allowed_N = torch.rand(COUNT, generator=torch.Generator().manual_seed(3)) < share
    exclude_Q1 = torch.arange(len(query_QD)).unsqueeze(1)
    for ours, theirs in zip(
        *(one.top(query_QD, 10, exclude_Q1, allowed_N=allowed_N) for one in (exact, found)), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_a_collection_is_written_once_and_completed_after_an_interruption(exact, found, query_QD):
    client, name = found.index._client, found.index.collection
    assert name == f"dresses_2026_11_23_abc123_{fingerprint(exact)[:8]}"
    client.delete(name, ids=[3, 4])
    milvus._fill(client, name, exact)
    assert milvus._count(client, name) == COUNT
    written = []
    client_upsert, client.upsert = client.upsert, lambda *args, **more: written.append(args)
    milvus._fill(client, name, exact)
    client.upsert = client_upsert
    assert not written


def test_the_alias_names_the_active_collection(found):
    client = found.index._client
    client.create_collection("earlier", dimension=4)
    for search in (MilvusSearch(client, "earlier"), found.index, found.index):
        search.point_alias("dresses")
        assert client.describe_alias("dresses")["collection_name"] == search.collection


def test_a_folder_in_use_is_refused(found, folder, exact, query_QD, monkeypatch):
    import pymilvus

    monkeypatch.setattr(pymilvus, "MilvusClient", lambda *args, **more: 1 / 0)
    with pytest.raises(UserError, match=r"milvus\.db: Milvus cannot be opened \(division by zero\)"):
        in_milvus(exact, f"milvus://{folder}", NAME, query_QD)


def test_a_damaged_folder_is_refused_without_a_traceback(exact, query_QD, tmp_path, caplog):
    (tmp_path / "milvus.db/LOCK").mkdir(parents=True)
    with pytest.raises(UserError, match="Milvus cannot be opened"):
        in_milvus(exact, f"milvus://{tmp_path / 'milvus.db'}", NAME, query_QD)
    assert not caplog.records


def test_a_pipe_in_the_folder_is_refused_and_not_waited_for(exact, query_QD, tmp_path):
    (tmp_path / "milvus.db").mkdir()
    os.mkfifo(tmp_path / "milvus.db/manifest.json")
    with pytest.raises(UserError, match=r"manifest\.json is a pipe"):
        in_milvus(exact, f"milvus://{tmp_path / 'milvus.db'}", NAME, query_QD)


@pytest.mark.parametrize(
    ("place", "advice"), [("host:19530", "start Milvus"), ("/some/milvus.db", "remove the folder")]
)
def test_what_to_do_about_a_failure_depends_on_where_milvus_runs(exact, query_QD, monkeypatch, place, advice):
    def fails(*_):
        raise EngineError("gone")

    monkeypatch.setattr(milvus, "_client", lambda url: None)
    monkeypatch.setattr(milvus, "_fill", fails)
    with pytest.raises(UserError, match=f"milvus://{place}: gone; {advice}"):
        in_milvus(exact, f"milvus://{place}", NAME, query_QD)


class Broken:
    """A client that fails while `fails`."""

    def __init__(self):
        self.fails, self.asked = True, 0

    def search(self, *args, data, **more):
        from pymilvus.exceptions import MilvusException

        self.asked += 1
        if self.fails:
            raise MilvusException(message="gone")
        return [[{"id": 1}] for _ in data]


def test_after_some_failures_milvus_is_left_alone_for_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(milvus.time, "monotonic", lambda: now[0])
    client = Broken()
    search = MilvusSearch(client, "any")
    for number in range(1, 11):
        with pytest.raises(EngineError):
            search(torch.zeros(2, 4), 3)
        assert client.asked == min(number, milvus.FAILURES)
    client.fails = False
    now[0] += milvus.PAUSE
    assert search(torch.zeros(2, 4), 3).tolist() == [[1], [1]] and client.asked == milvus.FAILURES + 1


@pytest.mark.parametrize(("allowed", "limit"), [(100, 6), (50, 12), (1, 600), (0, 600)])
def test_the_fewer_products_are_allowed_the_more_candidates_are_asked_for(allowed, limit):
    asked = []

    def search(*args, data, limit, **more):
        asked.append(limit)
        return [[{"id": 1}] for _ in data]

    MilvusSearch(SimpleNamespace(search=search), "any")(torch.zeros(2, 4), 3, torch.arange(100) < allowed)
    assert asked == [limit]


@pytest.mark.parametrize(
    ("value", "wider", "count", "looked_at"),
    [
        (None, 1.0, 3, MilvusSearch.values[0]),
        (64, 1.0, 3, 64),
        (64, 3.0, 3, 192),
        (64, 1.01, 3, 65),
        (64, 1e6, 3, MilvusSearch.values[-1]),
        (64, 1.0, 65, 65),
        (64, 3.0, 5000, 5000),
        (64, 1.0, 20_000, 16_384),
    ],
)
def test_as_much_of_milvus_is_looked_at_as_is_set_and_never_less_than_is_asked_for(
    value, wider, count, looked_at
):
    asked = []

    def search(collection, *, data, limit, search_params, timeout):
        asked.append((collection, data, limit, search_params))
        return [[{"id": 1}] for _ in data]

    found = MilvusSearch(SimpleNamespace(search=search), "any")
    found.value = value or found.value
    found(torch.tensor([[1.0, 2.0]]), count, wider=wider)
    params = {"metric_type": "L2", "params": {"ef": looked_at}}
    assert asked == [("any", [[1.0, 2.0]], min(count, 16_384), params)]


def test_queries_for_which_milvus_finds_fewer_are_filled_with_none():
    hits = [[{"id": 4}], [{"id": 7}, {"id": 0}, {"id": 2}], []]
    found = MilvusSearch(SimpleNamespace(search=lambda *args, **more: hits), "any")(torch.zeros(3, 2), 3)
    assert found.tolist() == [[4, -1, -1], [7, 0, 2], [-1, -1, -1]]


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:19530", "milvus://", "milvus://user:word@host", "milvus://host:none", "milvus:///a"],
)
def test_other_addresses_are_refused(exact, query_QD, url):
    with pytest.raises(UserError, match="expected milvus://HOST:PORT"):
        in_milvus(exact, url, NAME, query_QD)


def test_only_this_machine_is_reached_without_tls(monkeypatch, exact, query_QD):
    import pymilvus

    asked = []
    monkeypatch.setattr(pymilvus, "MilvusClient", lambda uri, **more: asked.append(uri) or 1 / 0)
    for url in ("milvus://localhost", "milvus://[::1]:5", "milvus://milvus.example:443"):
        with pytest.raises(UserError):
            in_milvus(exact, url, NAME, query_QD)
    assert asked == ["http://localhost:19530", "http://[::1]:5", "https://milvus.example:443"]


def test_milvus_without_its_client_is_refused(exact, query_QD, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymilvus", None)
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[milvus\]'"):
        in_milvus(exact, "milvus://localhost", NAME, query_QD)

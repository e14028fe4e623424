"""Two models compared in the service, from the first conversation to the decision."""

from functools import partial

import pytest
from fastapi.testclient import TestClient

from fashioniq.cli import main
from fashioniq.service.access import Access
from fashioniq.service.api import create_app
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import Store
from fashioniq.systems import zero_shot


@pytest.fixture
def opened(runs, tmp_path):
    """A service of the trained retriever, its database, and an untrained search of the same products."""
    challenger = zero_shot.prepare_zero_shot("metadata", runs.catalog, "dresses", out=tmp_path / "untrained")
    database = f"sqlite:///{tmp_path / 'service.db'}"
    store, inference = Store.open(database), Inference()
    models = Models(store, inference, partial(Served.of, split="all", device="cpu"), None)
    models.open([runs.retriever])
    yield Service(store, models, inference), database, challenger
    inference.close()
    store.close()


def talk(client, service, favored, client_id):
    """A shopper who clicks what one of the models contributed: 1 the challenger, −1 the running one."""
    asked = {"category": "dresses", "consent": "service", "client_id": client_id}
    started = client.post("/v1/sessions", json=asked).json()
    answer = client.post(
        f"/v1/sessions/{started['session_id']}/turns",
        json={"says": "is red with long sleeves"},
        headers={"Authorization": f"Bearer {started['session_token']}"},
    ).json()
    shown = service.store.turns(started["session_id"])[1].shown
    clicked = max(shown, key=lambda one: favored * one["credit"])
    event = {
        "event_id": started["session_id"],
        "action_name": "click",
        "query_id": answer["query_id"],
        "session_id": started["session_id"],
        "timestamp": "2026-01-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": clicked["id"]}},
    }
    assert not client.post("/v1/events", json={"events": [event]}).json()["errors"]


def test_a_comparison_begins_is_watched_and_ends_by_its_rule(opened, runs, tmp_path, capsys):
    service, database, challenger = opened
    compare = ["compare-live", "--database", database]
    assert main(compare) == 2
    assert "expected a comparison in the database, found none" in capsys.readouterr().err
    assert main([*compare, "--run", str(runs.retriever)]) == 2
    assert "found this one; give another --run" in capsys.readouterr().err
    assert main([*compare, "--run", str(challenger)]) == 0
    assert "0 of at most 10,000 conversations" in capsys.readouterr().out
    assert main([*compare, "--run", str(challenger)]) == 2
    assert "is compared with" in capsys.readouterr().err

    page = tmp_path / "page.html"
    page.write_text("of an earlier look")
    service.experiments.refresh()
    client = TestClient(create_app(service, Access(service.store, True)), client=("127.0.0.1", 1))
    for number in range(110):
        talk(client, service, 1 if number % 8 else -1, client_id=str(number))
    for number in range(3):
        talk(client, service, -1, client_id=str(number))
    assert main([*compare, "--out", str(page)]) == 0
    told = capsys.readouterr().out
    (experiment,) = service.store.experiments("dresses")
    assert "110 of at most 10,000" in told and ", 3 later ones of the same clients" in told
    assert "the challenger is better; activate it" in told
    assert experiment.verdict == "challenger" and experiment.ended_at is not None
    path = f"/v1/models/{experiment.challenger}/activate"
    assert f'{path} -H "Authorization: Bearer $KEY"' in told
    shown = page.read_text()
    assert "3 later ones of the same clients" in shown
    assert "the challenger is better" in shown and "Line plot of the difference" in shown
    service.experiments.refresh()
    talking = client.post("/v1/sessions", json={"category": "dresses", "consent": "service"}).json()
    assert service.store.session(talking["session_id"]).experiment is None
    # as told, without a proxy and without a key
    assert client.post(path, headers={"Authorization": "Bearer "}).json()["active"] is True


def test_a_comparison_ends_by_hand_and_tells_of_another_active_model(opened, capsys):
    service, database, challenger = opened
    compare = ["compare-live", "--database", database]
    assert main([*compare, "--run", str(challenger), "--method", "split", "--most", "200"]) == 0
    (experiment,) = service.store.experiments("dresses")
    assert (experiment.method, experiment.most, experiment.error) == ("split", 200, 0.05)
    service.models.activate(experiment.challenger)
    assert main(compare) == 0
    assert "another model was activated; end the comparison with --end dresses" in capsys.readouterr().out
    assert main([*compare, "--end", "tops"]) == 2
    assert "expected a comparison of tops, found none" in capsys.readouterr().err
    assert main([*compare, "--end", "dress", "--run", "x"]) == 2
    assert "give one of them" in capsys.readouterr().err
    assert main([*compare, "--end", "dress"]) == 0
    assert "ended by hand" in capsys.readouterr().out
    assert service.store.experiment(experiment.id).verdict == "ended by hand"
    service.store.activate_model(experiment.running)
    assert main([*compare, "--run", str(challenger)]) == 0  # another one may begin


def test_a_model_of_other_products_is_refused(opened, runs, tmp_path, project, capsys):
    service, database, _ = opened
    project.run("draw-sample", data=tmp_path / "other", products=90)
    other = zero_shot.prepare_zero_shot(
        "metadata", tmp_path / "other", "dresses", out=tmp_path / "untrained-other"
    )
    assert main(["compare-live", "--database", database, "--run", str(other)]) == 2
    assert "expected models of the same products" in capsys.readouterr().err
    assert service.store.running_experiments() == []

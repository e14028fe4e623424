from collections import Counter
from contextlib import suppress
from dataclasses import replace
from unittest.mock import Mock

import pytest
from msgspec.structs import replace as replace_struct

from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import EngineError
from fashioniq.metrics.sequential import half_width
from fashioniq.service import experiments
from fashioniq.service.experiments import check_comparable
from fashioniq.service.live_comparison import live_comparison
from fashioniq.service.problems import Problem
from fashioniq.service.store import ExperimentRow, ProductRow, Unavailable
from tests.unit.service.conftest import COUNT, WORDS, Talking, served, showing_system
from tests.unit.service.test_api import selling
from tests.unit.service.test_page import Shopper

RUNNING, CHALLENGER = "dresses@2026-01-01-0", "dresses@2026-01-01-1"


def begun(service, method="team-draft", reload=True, **fields):
    """The service with a comparison, as a process finds it."""
    if reload:
        service.models.register(service.models.folder / "dresses-1")
    experiment = ExperimentRow(
        id="cmp_1",
        category="dresses",
        running=RUNNING,
        challenger=CHALLENGER,
        method=method,
        error=0.05,
        most=1000,
        started_at=service.store.now(),
    )
    experiment = ExperimentRow(
        **{name: getattr(experiment, name) for name in experiment.__struct_fields__} | fields
    )
    service.store.begin_experiment(experiment)
    service.experiments.refresh()
    return experiment


def ids(answer):
    return [one["product_id"] for one in answer["results"]]


def ranked(seed, texts, k=8):
    live = showing_system(seed).dialog()
    for about, text in texts:
        live = live.about(about).say(text)
    return [product.id for product in live.nearest(k)]


class Broken:
    """A gallery that fails."""

    def __init__(self, gallery):
        self.gallery = gallery

    def __getattr__(self, name):
        return getattr(self.gallery, name)

    def __len__(self):
        return len(self.gallery)

    def top(self, *given, **more):
        raise EngineError("away")


def break_model(service, version):
    model = service.models.version(version)
    model.system = replace(model.system, gallery=Broken(model.system.gallery))


@pytest.mark.parametrize("method", ["team-draft", "probabilistic"])
def test_an_interleaved_answer_has_products_of_both_models(service, client, method):
    begun(service, method)
    talk, usual = Talking(client, consent="service"), Talking(client)
    about = ids(talk.started["last"])[1]
    first = talk.turn(says="is navy with longer sleeves", about=about)
    texts = [(about, "is navy with longer sleeves")]
    depth = 8 if method == "team-draft" else 30
    of_both = [ranked(seed, texts, depth) for seed in (0, 1)]
    assert set(ids(first.json())) <= {*of_both[0], *of_both[1]} and len(ids(first.json())) == 8
    row = service.store.turns(talk.id)[1]
    assert [one["id"] for one in row.shown] == ids(first.json())
    contributed = {one["id"]: one["credit"] for one in row.shown}
    if method == "team-draft":
        for name, credit in contributed.items():
            in_one = [name in of for of in of_both]
            assert credit in {(True, False): (-1,), (False, True): (1,), (True, True): (-1, 0, 1)}[*in_one]
    assert all(0 < one["propensity"] <= 1 for one in row.shown) and not any(
        "failed" in one for one in row.shown
    )
    assert ids(usual.turn(says="is navy with longer sleeves", about=about).json()) == of_both[0][:8]
    assert "credit" not in service.store.turns(usual.id)[1].shown[0]
    # both models have heard the first turn
    second = talk.turn(says="more formal", about=about).json()
    texts.append((about, "more formal"))
    of_both = [ranked(seed, texts, depth) for seed in (0, 1)]
    assert set(ids(second)) <= {*of_both[0], *of_both[1]}
    service.states._dialogs.clear()
    third = talk.turn(says="less floral", about=about).json()
    texts.append((about, "less floral"))
    assert set(ids(third)) <= {*ranked(0, texts, depth), *ranked(1, texts, depth)}


def test_each_model_is_asked_once_a_turn(service, client, monkeypatch):
    begun(service)
    searched = Counter()
    search = service.inference._search
    monkeypatch.setattr(
        service.inference,
        "_search",
        lambda system, group: (searched.update([id(system)] * len(group)), search(system, group)),
    )
    talk = Talking(client, consent="service")
    searched.clear()
    talk.turn(says="is navy")
    assert sorted(searched.values()) == [1, 1]


def test_a_conversation_sees_one_model_of_a_split_to_its_end(service, client, service_of, client_of):
    begun(service, "split")
    talks = [Talking(client, consent="service") for _ in range(40)]
    rows = [service.store.session(talk.id) for talk in talks]
    models = Counter((row.arm, row.model) for row in rows)
    assert set(models) == {("running", RUNNING), ("challenger", CHALLENGER)} and min(models.values()) > 5
    elsewhere = client_of(service_of(()))
    for talk, row in list(zip(talks, rows, strict=True))[:6]:
        about = ids(talk.started["last"])[0]
        seed = int(row.model[-1])
        assert ids(talk.turn(says="is navy", about=about).json()) == ranked(seed, [(about, "is navy")])
        talk.client = elsewhere
        answer = talk.turn(says="more formal", about=about).json()
        assert ids(answer) == ranked(seed, [(about, "is navy"), (about, "more formal")])
        assert answer["model"] == row.model and row.experiment == "cmp_1"


def test_who_takes_part(service, client):
    service.explore = 0.0
    begun(service)
    taking_part = {
        consent: service.store.session(Talking(client, consent=consent).id).experiment
        for consent in ("none", "service", "training")
    }
    assert taking_part == {"none": None, "service": "cmp_1", "training": "cmp_1"}
    tested = Talking(client, consent="training", origin="test")
    assert service.store.session(tested.id).experiment is None
    service.explore = 1.0
    exploring = service.store.session(Talking(client, consent="training").id)
    assert (exploring.arm, exploring.experiment) == ("explore", None)
    service.store.end_experiment("cmp_1", "challenger")
    service.experiments.refresh()
    assert service.store.session(Talking(client, consent="service").id).experiment is None


@pytest.mark.parametrize("broken", [RUNNING, CHALLENGER])
def test_the_other_model_answers_for_one_that_fails(service, client, broken):
    begun(service)
    talk = Talking(client, consent="service")
    about = ids(talk.started["last"])[0]
    break_model(service, broken)
    answer = talk.turn(says="is navy", about=about)
    assert answer.status_code == 201
    other = 1 if broken == RUNNING else 0
    assert ids(answer.json()) == ranked(other, [(about, "is navy")])
    row = service.store.turns(talk.id)[1]
    assert row.shown[0]["failed"] == 1 and "credit" not in row.shown[0]
    assert live_comparison(service.store, service.store.experiment("cmp_1")).excluded == 1
    assert talk.request("GET").json()["last"]["results"]


def test_the_other_model_answers_for_the_failed_one_of_a_split(service, client):
    begun(service, "split")
    talk = next(
        talk
        for talk in (Talking(client, consent="service") for _ in range(60))
        if service.store.session(talk.id).arm == "challenger"
    )
    about = ids(talk.started["last"])[0]
    break_model(service, CHALLENGER)
    answer = talk.turn(says="is navy", about=about).json()
    assert ids(answer) == ranked(0, [(about, "is navy")]) and answer["model"] == RUNNING
    assert service.store.turns(talk.id)[1].shown[0]["failed"] == 1
    break_model(service, RUNNING)
    failed = talk.turn(says="more formal", about=about)
    assert failed.status_code == 503 and failed.json()["code"] == "engine"


def test_a_challenger_that_cannot_be_loaded_gets_no_conversations(service, client, monkeypatch):
    begun(service)
    old = Talking(client, consent="service")
    about = ids(old.started["last"])[0]
    of = service.models.version

    def version(name):
        if name == CHALLENGER:
            raise Problem("model-retired")
        return of(name)

    monkeypatch.setattr(service.models, "version", version)
    service.experiments.refresh()
    assert service.store.session(Talking(client, consent="service").id).experiment is None
    answer = old.turn(says="is navy", about=about)
    assert ids(answer.json()) == ranked(0, [(about, "is navy")])
    assert service.store.turns(old.id)[1].shown[0]["failed"] == 1


def test_a_challenger_whose_folder_was_put_back_gets_conversations_again(service, service_of, monkeypatch):
    begun(service)
    restarted = service_of(())
    with monkeypatch.context() as patch:
        patch.setattr(restarted.models, "_load", Mock(side_effect=UserError("no such folder")))
        restarted.models._versions.pop(CHALLENGER, None)
        restarted.experiments.refresh()
    active = restarted.models.active("dresses")
    assert restarted.experiments.assigned(active, "ses_1", "service", "api").arm is None
    restarted.models.register(restarted.models.folder / "dresses-1")
    restarted.experiments.refresh()
    assert restarted.experiments.assigned(active, "ses_1", "service", "api").arm == "both"


def test_another_active_model_ends_the_assignment(service, client):
    begun(service)
    service.models.register(service.models.folder / "dresses-2")
    service.models.activate("dresses@2026-01-01-2")
    assert service.store.session(Talking(client, consent="service").id).experiment is None


def test_busy_models_are_not_failed_ones(service, client, monkeypatch):
    begun(service)
    talk = Talking(client, consent="service")
    monkeypatch.setattr(
        service.inference, "_add", lambda job: (_ for _ in ()).throw(Problem("busy", retry_after=1))
    )
    assert talk.turn(says="is navy").json()["code"] == "busy"
    assert len(service.store.turns(talk.id)) == 1


def test_only_models_of_the_same_products_are_compared(tmp_path):
    check_comparable(served(tmp_path / "dresses-0"), served(tmp_path / "dresses-1"))
    asking = served(tmp_path / "tops-0")
    with pytest.raises(UserError, match="expected models that show products"):
        check_comparable(served(tmp_path / "dresses-0"), asking)
    with pytest.raises(UserError, match="expected models of the same products, found skirts"):
        check_comparable(served(tmp_path / "dresses-0"), served(tmp_path / "skirts-0"))


def test_a_comparison_goes_on_with_new_products_in_all_processes(service, service_of, monkeypatch):
    begun(service)
    loads, both = [], (service, service_of(()))
    for one in both:
        one.experiments.refresh()
        one.models.refresh_all()
    selling(monkeypatch, *both, loads=loads)
    service.models.register(service.models.folder / "dresses-0")
    for one in both:
        for _ in range(3):
            one.models.refresh_all()
            one.experiments.refresh()
        active = one.models.active("dresses")
        assert one.experiments.assigned(active, "ses_1", "service", "api").arm == "both"
        assert len(one.models.version(CHALLENGER).system.gallery) == COUNT - 1
    assert len(loads) == 4, "each model once in each process"


def test_a_challenger_with_other_products_is_loaded_again_once(service, monkeypatch):
    begun(service)
    loads, load = [], service.models._load
    selling(monkeypatch, service)
    service.models.register(service.models.folder / "dresses-0")
    monkeypatch.setattr(service.models, "_load", lambda run: (loads.append(run.name), load(run))[1])
    for _ in range(3):
        service.experiments.refresh()
    active = service.models.active("dresses")
    assert service.experiments.assigned(active, "ses_1", "service", "api").arm is None
    assert loads == ["dresses-1"]


@pytest.mark.parametrize("error", [Problem("busy"), Unavailable("away")])
def test_a_comparison_goes_on_after_its_challenger_could_not_be_loaded_again_at_once(
    service, monkeypatch, error
):
    begun(service)
    selling(monkeypatch, service)
    service.models.register(service.models.folder / "dresses-0")
    with monkeypatch.context() as patch, suppress(Unavailable):
        patch.setattr(service.models, "loaded", Mock(side_effect=error))
        service.experiments.refresh()
    service.experiments.refresh()
    active = service.models.active("dresses")
    assert service.experiments.assigned(active, "ses_1", "service", "api").arm == "both"


@pytest.mark.parametrize("error", [Problem("busy"), RuntimeError("no memory")])
def test_prices_are_taken_over_while_a_challenger_cannot_be_loaded_again(
    service, service_of, monkeypatch, error
):
    begun(service)
    elsewhere = service_of(())
    elsewhere.experiments.refresh()
    elsewhere.models.refresh_all()
    selling(monkeypatch, service)
    service.models.register(service.models.folder / "dresses-1")
    sold = ProductRow(category="dresses", id="p1", in_stock=False, updated_at=service.store.now())
    service.store.add_products("dresses", [sold])
    monkeypatch.setattr(elsewhere.models, "_load", Mock(side_effect=error))
    elsewhere.models.refresh_all()
    assert elsewhere.models.active("dresses").shelf.row("p1").in_stock is False


def test_a_challenger_that_is_registered_again_is_taken_over_by_other_processes(
    service, service_of, monkeypatch
):
    begun(service)
    elsewhere = service_of(())
    elsewhere.experiments.refresh()
    elsewhere.models.refresh_all()
    selling(monkeypatch, service, elsewhere)
    service.models.register(service.models.folder / "dresses-1")
    elsewhere.models.refresh_all()
    assert len(elsewhere.models.version(CHALLENGER).system.gallery) == COUNT - 1


def test_a_category_has_one_comparison_at_a_time(service):
    experiment = begun(service)
    with pytest.raises(UserError, match="compared with dresses@2026-01-01-0 already"):
        service.store.begin_experiment(experiment)
    assert service.store.running_experiments() == [experiment]
    service.store.end_experiment("cmp_1", "running")
    service.store.end_experiment("cmp_1", "challenger")
    (ended,) = service.store.experiments("dresses")
    assert ended.verdict == "running" and ended.ended_at and service.store.running_experiments() == []
    assert service.store.experiment("cmp_2") is None


@pytest.mark.parametrize("wrong", [{"error": 0.0}, {"error": 1.5}, {"most": 0}])
def test_an_experiment_has_a_rule_that_ends_it(service, wrong):
    with pytest.raises(ValueError, match="no rule"):
        replace_struct(begun(service), **wrong)


@pytest.mark.parametrize("credit", ["x", None, float("nan"), 10**400, [1]])
def test_what_was_shown_has_numbers(service, talking, credit):
    talking.turn(says="is navy")
    (_, row) = service.store.turns(talking.id)
    with pytest.raises(ValueError, match="no number"):
        replace_struct(row, shown=[row.shown[0] | {"credit": credit}])


def click(client, talk, answer, name, action="click"):
    event = {
        "event_id": f"{talk.id}-{name}-{action}",
        "action_name": action,
        "query_id": answer["query_id"],
        "session_id": talk.id,
        "timestamp": "2026-01-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": name}},
    }
    assert not client.post("/v1/events", json={"events": [event]}).json()["errors"]


def test_clicks_on_products_of_the_challenger_decide_for_it(service, client):
    experiment = begun(service)
    values = []
    for _ in range(120):
        talk = Talking(client, consent="service")
        answer = talk.turn(says="is navy").json()
        credits = {one["id"]: one["credit"] for one in service.store.turns(talk.id)[1].shown}
        best = max(credits, key=credits.get)
        click(client, talk, answer, best)
        click(client, talk, answer, best, "this_is_it")
        values.append(credits[best])
    found = live_comparison(service.store, experiment)
    last = found.standings[-1]
    assert last.count == 120 and last.difference == pytest.approx(sum(values) / 120)
    assert found.verdict == "challenger" and found.excluded == 0
    assert [one.count for one in found.standings[:3]] == [0, 2, 4]


def test_what_happens_after_the_end_of_a_comparison_does_not_change_it(service, client, monkeypatch):
    experiment = begun(service, "split")
    talks = [Talking(client, consent="service") for _ in range(8)]
    arms = [service.store.session(talk.id).arm for talk in talks]
    answers = [talk.turn(says="is navy").json() for talk in talks]
    for talk, answer, arm in zip(talks, answers, arms, strict=True):
        if arm == "challenger":
            click(client, talk, answer, ids(answer)[0], "this_is_it")
    stood = live_comparison(service.store, experiment).standings
    experiment = service.store.end_experiment(experiment.id, "challenger")
    for talk, answer in zip(talks, answers, strict=True):
        click(client, talk, answer, ids(answer)[0], "purchase")
    Talking(client, consent="service")
    break_model(service, CHALLENGER)
    talks[0].turn(says="is red")
    found = live_comparison(service.store, experiment)
    assert found.standings == stood and found.excluded == 0 and found.verdict == "challenger"


def test_only_the_first_conversation_of_a_client_counts(service, client):
    experiment = begun(service)

    def chosen(credit, **fields):
        talk = Talking(client, consent="service", **fields)
        answer = talk.turn(says="is navy with longer sleeves").json()
        shown = service.store.turns(talk.id)[1].shown
        click(client, talk, answer, next(one["id"] for one in shown if one["credit"] == credit))
        return talk

    def stands():
        found = live_comparison(service.store, experiment)
        return found.standings[-1].count, found.standings[-1].difference, found.later

    first = chosen(1, client_id="a")
    for _ in range(4):
        chosen(-1, client_id="a")
    assert stands() == (1, 1.0, 4)
    chosen(-1, client_id="b")
    assert stands() == (2, 0.0, 4)
    for _ in range(2):
        chosen(1)  # nobody knows whose
    assert stands() == (4, 0.5, 4)
    log = [session.id for session, _, _ in service.store.experiment_log("cmp_1")]
    assert log[0] == first.id and len(log) == 4
    first.request("PUT", "/consent", json={"consent": "none"})
    assert stands() == (4, 0.0, 3)


def test_a_client_whose_model_failed_first_does_not_count_later(service, client, monkeypatch):
    experiment = begun(service)
    with monkeypatch.context() as patch:
        failing = service.models.version(CHALLENGER)
        patch.setattr(failing, "system", replace(failing.system, gallery=Broken(failing.system.gallery)))
        Talking(client, consent="service", client_id="a").turn(says="is navy")
    service.states._dialogs.clear()
    Talking(client, consent="service", client_id="a").turn(says="is navy")
    found = live_comparison(service.store, experiment)
    assert (found.standings[-1].count, found.excluded, found.later) == (0, 1, 1)


def test_a_comparison_ends_by_the_number_of_clients(service, client):
    experiment = begun(service, most=2)
    for _ in range(3):
        Talking(client, consent="service", client_id="a")
    service.experiments.refresh()
    assert live_comparison(service.store, experiment).verdict is None
    last = Talking(client, consent="service", client_id="b")
    assert service.store.session(last.id).experiment == "cmp_1"
    service.experiments.refresh()
    assert live_comparison(service.store, experiment).verdict == "undecided"
    assert service.store.session(Talking(client, consent="service", client_id="c").id).experiment is None


def test_without_clicks_it_stays_open_and_ends_undecided(service, client):
    experiment = begun(service, most=3)
    assert live_comparison(service.store, experiment).verdict is None
    for _ in range(5):
        Talking(client, consent="service").turn(says="is navy")
    found = live_comparison(service.store, experiment)
    assert (found.verdict, found.standings[-1].count, found.standings[-1].difference) == (
        "undecided",
        3,
        0,
    )


def test_a_split_is_the_difference_of_success(service, client):
    experiment = begun(service, "split")
    counts, successes = Counter(), Counter()
    for _ in range(130):
        talk = Talking(client, consent="service")
        arm = service.store.session(talk.id).arm
        counts[arm] += 1
        if arm == "challenger" or counts[arm] % 2:
            answer = talk.turn(says="is navy").json()
            click(client, talk, answer, ids(answer)[0], "this_is_it")
            successes[arm] += 1
    found = live_comparison(service.store, experiment)
    last = found.standings[-1]
    rate = successes["running"] / counts["running"]
    assert last.difference == pytest.approx(1 - rate)
    assert last.half == pytest.approx(half_width(130, 130 * rate * (1 - rate) / counts["running"]))
    assert found.verdict == "challenger"


def test_the_target_counts_and_clicks_only_without_one(service, client):
    experiment = begun(service)
    talk = Talking(client, consent="service")
    answer = talk.turn(says="is navy with longer sleeves").json()
    credits = {one["id"]: one["credit"] for one in service.store.turns(talk.id)[1].shown}
    best, worst = max(credits, key=credits.get), min(credits, key=credits.get)
    click(client, talk, answer, worst)
    click(client, talk, answer, worst)
    assert live_comparison(service.store, experiment).standings[-1].difference == credits[worst] == -1
    other = next(name for name, credit in credits.items() if credit != -1)
    click(client, talk, answer, other)
    mean = (credits[other] - 1) / 2
    assert live_comparison(service.store, experiment).standings[-1].difference == pytest.approx(mean)
    click(client, talk, answer, best, "purchase")
    assert live_comparison(service.store, experiment).standings[-1].difference == credits[best] == 1


def test_a_withdrawn_consent_ends_the_part_of_a_conversation(service, client):
    experiment = begun(service)
    talk = Talking(client, consent="service")
    answer = talk.turn(says="is navy", k=8).json()
    assert live_comparison(service.store, experiment).standings[-1].count == 1
    talk.request("PUT", "/consent", json={"consent": "none"})
    assert live_comparison(service.store, experiment).standings[-1].count == 0
    about = ids(answer)[0]
    talk.turn(says="more formal", about=about)
    assert "credit" not in service.store.turns(talk.id)[2].shown[0]


def test_the_page_takes_part_if_consent_comes_first(service, client):
    begun(service)
    service.explore = 0.0
    shopper = Shopper(client)
    shopper.open()
    shopper.send("consent", consent="training")
    shopper.send("say", says="is navy")
    (session,) = [one for one, _, _ in service.store.experiment_log("cmp_1")]
    assert (session.arm, session.consent, session.origin) == ("both", "training", "page")


def test_a_longer_list_begins_as_the_shorter_one(service, client):
    begun(service)
    for _ in range(6):
        talk = Talking(client, consent="service")
        short = ids(talk.turn(says="is navy", k=4).json())
        assert ids(talk.turn(filters={}, k=12).json())[:4] == short


def test_no_more_conversations_than_most_are_assigned(service, client):
    begun(service, most=2)
    for _ in range(2):
        Talking(client, consent="service")
    service.experiments.refresh()
    assert service.store.session(Talking(client, consent="service").id).experiment is None


def test_words_of_the_model_that_knows_more_are_read(service, client):
    model = service.models.register(service.models.folder / "dresses-1")
    model.system = replace(model.system, vocabulary=Vocabulary([*WORDS, "sequins"]))
    begun(service, reload=False)
    talk = Talking(client, consent="service")
    assert talk.turn(says="is navy with sequins").json()["heard"]["unknown"] == []
    assert talk.turn(says="sequins").status_code == 201
    assert Talking(client).turn(says="sequins").status_code == 422


def test_a_model_that_cannot_read_a_picture_is_left_out(service, client, monkeypatch):
    begun(service)
    talk = Talking(client, consent="service")
    about = ids(talk.started["last"])[0]
    resolved = service.states.resolved

    def unreadable(served, step):
        if served.version == CHALLENGER:
            raise Problem("no-picture-encoder")
        return resolved(served, step)

    monkeypatch.setattr(service.states, "resolved", unreadable)
    assert ids(talk.turn(says="is navy", about=about).json()) == ranked(0, [(about, "is navy")])
    assert service.store.turns(talk.id)[1].shown[0]["failed"] == 1


def test_a_model_that_cannot_be_loaded_is_tried_once(service, client, monkeypatch):
    begun(service)
    talk = Talking(client, consent="service")
    loads, of = [], service.models.version

    def version(name):
        if name == CHALLENGER:
            loads.append(name)
            raise RuntimeError("out of memory")
        return of(name)

    monkeypatch.setattr(service.models, "version", version)
    for _ in range(3):
        service.experiments.refresh()
        assert talk.turn(says="is navy").status_code == 201
    assert loads == [CHALLENGER]


def test_two_models_without_numbers_are_a_problem(service, client):
    begun(service)
    talk = Talking(client, consent="service")
    broken = lambda *given, **more: (_ for _ in ()).throw(NotFiniteError("nan"))  # noqa: E731
    for version in (RUNNING, CHALLENGER):
        break_model(service, version)
        service.models.version(version).system.gallery.top = broken
    failed = talk.turn(says="is navy")
    assert failed.status_code == 422 and failed.json()["code"] == "unusable-run"


def test_failed_conversations_count_for_the_end_and_not_for_the_difference(service, client):
    experiment = begun(service, most=2)
    talks = [Talking(client, consent="service") for _ in range(2)]
    assert live_comparison(service.store, experiment).verdict == "undecided"
    break_model(service, CHALLENGER)
    talks[0].turn(says="is navy")
    found = live_comparison(service.store, experiment)
    assert (found.verdict, found.excluded, found.standings[-1].count) == ("undecided", 1, 1)


def test_products_are_compared_again_only_after_a_model_was_loaded(service, monkeypatch):
    begun(service)
    checked = []
    monkeypatch.setattr(experiments, "check_comparable", lambda *models: checked.append(models))
    service.experiments.refresh()
    assert checked == []
    service.models.register(service.models.folder / "dresses-1")
    service.experiments.refresh()
    service.experiments.refresh()
    assert len(checked) == 1

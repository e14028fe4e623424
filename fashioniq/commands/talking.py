"""Who asks and who answers, as the options of make-dialogues and chat name them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from fashioniq import questioners
from fashioniq.commands.chat_encoders import Source, searched
from fashioniq.commands.common import features_folder, pick_device
from fashioniq.config import Asking
from fashioniq.data.catalog import ATTRIBUTE_LISTS, Catalog
from fashioniq.data.dialogues import Dialogue
from fashioniq.data.features import FeatureStore
from fashioniq.data.topics import Topic, topics_of
from fashioniq.files import UserError, checksum
from fashioniq.llm.endpoint import Endpoint
from fashioniq.llm.local import LanguageModel
from fashioniq.questioners import Known, Predicted, Questioner, Search
from fashioniq.runs import PredictorRun, read_run

ENDPOINT = "endpoint:"


def endpoint(settings: Asking, name: str) -> Endpoint:
    """The model of a name that begins with endpoint:."""
    return Endpoint(name.removeprefix(ENDPOINT), settings.cache, settings.retries, settings.timeout)


def topics(catalog: Catalog | None) -> list[Topic]:
    """What can be asked of a catalog. Raises UserError where there is none, or nothing to ask."""
    if catalog is None:
        raise UserError("attributes are those of a catalog: give its --category (and --data)")
    if not (found := topics_of(catalog.labels, catalog.all_ids())):
        raise UserError(f"{catalog.root} has no attribute labels of {catalog.category} that differ: there must be attributes/asin2attr.*.json")
    return found


def search_of(settings: Asking, catalog: Catalog) -> tuple[Search, list[str]]:
    """What finds the nearest products of the split by what was said, and their ids. Raises UserError where no --encoder is given."""
    if settings.encoder is None:
        raise UserError("nobody finds the candidates: give --encoder, a run of train-dialog-encoder or the name of CLIP or BLIP")
    is_run = (Path(settings.encoder) / "model.json").is_file()
    own = features_folder(settings.data, catalog.category, None)
    features = settings.features or (own if is_run else own.with_name(f"{own.name}-{Path(settings.encoder).name}"))
    found = searched(Source(settings.encoder, pick_device(settings.device), features=features), catalog.ids(settings.split), catalog.images)
    assert found.encoder is not None, "only own vectors have none"
    return Search(found.encoder, found.gallery(), found.joined), found.ids


def questioner_of(
    settings: Asking,
    catalog: Catalog | None,
    recorded: Sequence[Dialogue] = (),
    answered: bool = False,
    finding: tuple[Search, list[str]] | None = None,
) -> Questioner:
    """Who asks. `recorded` dialogues are `answered` where their own answers follow; `finding` is a `search_of` that is there already.

    Raises UserError where something is missing, or questions are too few.
    """
    if settings.questioner == "recorded":
        if (held := min((len(dialogue.rounds) - 1 for dialogue in recorded), default=0)) < settings.rounds:
            raise UserError(f"{held} rounds are recorded: give fewer than {settings.rounds} --rounds")
        return questioners.Recorded(recorded, answered)
    if settings.questioner in ("few-shot", "unanswered"):
        if (name := settings.language_model) is None:
            raise UserError(f"--questioner {settings.questioner} asks a language model: give --language-model")
        model = endpoint(settings, name) if name.startswith(ENDPOINT) else LanguageModel(name, pick_device(settings.device))
        return questioners.FewShot(model) if settings.questioner == "few-shot" else questioners.Unanswered(model, settings.rounds)
    found = topics(catalog)
    if len(found) < settings.rounds:
        raise UserError(f"{len(found)} questions can be asked of the attributes of {settings.data}: give --rounds {len(found)} or fewer")
    if settings.questioner != "candidate-aware":
        return questioners.InOrder([topic.question for topic in found], settings.seed if settings.questioner == "shuffled" else None)
    assert catalog is not None, "topics has seen to it"
    search, ids = finding or search_of(settings, catalog)
    return questioners.CandidateAware(answers_of(settings, catalog, found, ids), lambda said: search(said, settings.candidates))


def answers_of(settings: Asking, catalog: Catalog, found: Sequence[Topic], ids: Sequence[str]) -> Sequence[Known] | Sequence[Predicted]:
    """What each product would answer: by its labels, or as likely as the predictor of --attributes says of its features.

    Raises UserError where the features are not those of that predictor, or it knows too few words.
    """
    if settings.attributes is None:
        return questioners.known(found, [catalog.labels.get(name, [[]] * ATTRIBUTE_LISTS) for name in ids])
    store, run = FeatureStore(settings.features or features_folder(settings.data, catalog.category, None)), settings.attributes
    words = read_run(run, PredictorRun).attribute_words
    if store.facts.weights != checksum(run / "weights.safetensors"):
        raise UserError(f"the features in {store.root} are not those of {run}: extract them with --predictor {run}")
    weights = load_file(run / "weights.safetensors")
    items = store.items(ids)
    if lacking := len(ids) - len(items):
        raise UserError(f"{lacking} of the {len(ids)} products that are searched have no features in {store.root}: extract them again")
    logits_NA = items.features_ND @ weights["head.weight"].T + weights["head.bias"]
    made = questioners.predicted(found, words, logits_NA.sigmoid().numpy().astype(np.float64))
    if len(made) < settings.rounds:
        raise UserError(f"the words of {run} answer {len(made)} questions: give --rounds {len(made)} or fewer")
    return made

"""Askers that the options of make-dialogues and chat select."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from fashioniq.askers.attribute_questions import (
    CandidateAware,
    Known,
    Predicted,
    questions_from_chances,
    questions_from_labels,
)
from fashioniq.askers.language_model import FALLBACK, AllAtOnce, FewShot
from fashioniq.askers.person import PersonAsks
from fashioniq.askers.recorded import fixed_questions, recorded_questions
from fashioniq.config import Asking, EndpointOptions
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.data.dialogues import Dialogue, each
from fashioniq.data.items import Items
from fashioniq.data.parts import PartInputs, named_part
from fashioniq.data.topics import Topic, topics_of
from fashioniq.features.store import FeatureStore, features_folder
from fashioniq.files import UserError
from fashioniq.llm.endpoint import ENDPOINT, Endpoint
from fashioniq.llm.local import LocalLanguageModel
from fashioniq.llm.prompts import read_prompts
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Retriever
from fashioniq.models.device import pick_device
from fashioniq.models.text import NoSearch, TextRetriever
from fashioniq.report.person_page import person_page
from fashioniq.runs.predictor import head_of
from fashioniq.runs.search_space import search_space


def endpoint(settings: EndpointOptions, name: str) -> Endpoint:
    """Client of the language model `name`, which begins with endpoint:."""
    return Endpoint(name.removeprefix(ENDPOINT), settings.cache, timeout=settings.timeout)


def language_model(settings: EndpointOptions, name: str, device: str) -> Endpoint | LocalLanguageModel:
    """The language model `name`, on a server or local. Raises UserError if it cannot be loaded."""
    if name.startswith(ENDPOINT):
        return endpoint(settings, name)
    return LocalLanguageModel(name, pick_device(device))


def topics(catalog: Catalog | None) -> list[Topic]:
    """Topics of the questions about a catalog. Raises UserError without a catalog or without a topic."""
    if catalog is None:
        raise UserError("attribute questions and labels need a catalog; give --category (and --data)")
    if not (found := topics_of(catalog.labels, catalog.all_ids())):
        raise UserError(
            f"expected attribute labels of {catalog.category} that differ between products, found none in "
            f"{catalog.root / 'attributes'}; run extract-attributes first"
        )
    return found


def searched_by_text(settings: Asking, catalog: Catalog) -> tuple[Retriever, Gallery]:
    """Text retriever and gallery of the split's products. Raises UserError without --encoder."""
    if settings.encoder is None:
        raise UserError(
            "candidate-aware questions need --encoder; give a run of train-dialog-encoder, or another "
            "encoder by name"
        )
    found = search_space(
        settings.encoder,
        catalog.gallery_ids(settings.split),
        pick_device(settings.device),
        store=settings.features,
        catalog=catalog,
    )
    assert found.encoder is not None, "only search_space_of_vectors returns no encoder"
    return TextRetriever(found.encoder, each(found.text)), found.gallery()


def nothing_searched() -> tuple[Retriever, Gallery]:
    """Retriever without queries and empty gallery, for dialogs that need no search."""
    return NoSearch(), Gallery(Items.without_attributes([], torch.zeros(0, 1)), torch.zeros(0, 1))


AskerOf = Callable[[Sequence[int]], Asker]  # numbers of dialogs in the file → their asker


@dataclass(frozen=True, kw_only=True)
class AskerInputs(PartInputs):
    """What an asker of --questioner is made of; `answered` means that the answers are `recorded`, too."""

    settings: Asking
    recorded: Sequence[Dialogue] = ()
    answered: bool = False


class ByDialog(NamedTuple):
    """Askers of questions that were fixed before, which differ by dialog."""

    of_dialogs: AskerOf


def asker_of(
    settings: Asking,
    catalog: Catalog | None,
    gallery: Gallery,
    recorded: Sequence[Dialogue] = (),
    answered: bool = False,
) -> AskerOf:
    """Function that returns the asker of a batch of dialogs.

    Raises UserError if an option is missing or there are too few questions.
    """
    asker = named_part(
        "askers",
        settings.questioner,
        AskerInputs,
        options=getattr(settings, "questioner_options", None),
        catalog=catalog,
        ids=gallery.items.ids,
        seed=settings.seed,
        device=settings.device,
        settings=settings,
        recorded=recorded,
        answered=answered,
    )
    return asker.of_dialogs if isinstance(asker, ByDialog) else lambda numbers: asker


def of_recorded(made_of: AskerInputs) -> ByDialog:
    """The questions of recorded dialogs."""
    dialogues, wanted = made_of.recorded, made_of.settings.rounds
    if (count := min((len(dialogue.rounds) - 1 for dialogue in dialogues), default=0)) < wanted:
        raise UserError(f"expected {wanted} recorded rounds per dialog, found {count}; give fewer --rounds")
    unmarked = "" if made_of.answered else FALLBACK
    return ByDialog(lambda numbers: recorded_questions([dialogues[number] for number in numbers], unmarked))


def by_language_model(made_of: AskerInputs) -> Asker:
    """Questions of a language model: one after each answer, or all at once."""
    settings = made_of.settings
    if (name := settings.language_model) is None:
        raise UserError(f"--questioner {settings.questioner} needs a language model; give --language-model")
    model = language_model(settings, name, settings.device)
    own = read_prompts(settings.prompt)
    few_shot = settings.questioner == "few-shot"
    return FewShot(model, own) if few_shot else AllAtOnce(model, settings.rounds, own)


def by_person(made_of: AskerInputs) -> Asker:
    """Questions of a person, on the page."""
    return PersonAsks(person_page().ask)


def about_attributes(made_of: AskerInputs) -> Asker | ByDialog:
    """Questions about attributes: in a fixed order, shuffled, or those that split the candidates best."""
    settings, catalog = made_of.settings, made_of.catalog
    found = topics(catalog)
    assert catalog is not None, "topics raises UserError without a catalog"
    if len(found) < settings.rounds:
        raise UserError(
            f"the attributes in {catalog.root} give {len(found)} questions; give --rounds {len(found)} or "
            "fewer"
        )
    if settings.questioner != "candidate-aware":
        seed = settings.seed if settings.questioner == "shuffled" else None
        return ByDialog(lambda numbers: fixed_questions([topic.question for topic in found], numbers, seed))
    return CandidateAware(answers_of(settings, catalog, found, made_of.ids), settings.candidates)


def answers_of(
    settings: Asking, catalog: Catalog, found: Sequence[Topic], ids: Sequence[str]
) -> Sequence[Known] | Sequence[Predicted]:
    """Answers of each product: from its labels, or with --predictor the probabilities predicted from its
    features.

    Raises UserError if the features were computed by another predictor, or its words cover too few questions.
    """
    if settings.predictor is None:
        return questions_from_labels(
            found, [catalog.labels.get(name, [[]] * ATTRIBUTE_LISTS) for name in ids]
        )
    store = FeatureStore(settings.features or features_folder(catalog.root, catalog.category, None))
    head, words = head_of(settings.predictor, store)
    items = store.items(ids)
    if lacking := len(ids) - len(items):
        raise UserError(
            f"{lacking} of the {len(ids)} products in the gallery have no features in {store.root}; extract "
            "them again"
        )
    made = questions_from_chances(found, words, items.embedded(head).sigmoid().numpy().astype(np.float64))
    if len(made) < settings.rounds:
        raise UserError(
            f"the words of {settings.predictor} answer {len(made)} questions; give --rounds {len(made)} or fewer"
        )
    return made

"""Questions about the current candidates, filtered and chosen by the retriever itself (PlugIR, Lee et al. 2024)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor

from fashioniq.askers.attribute_questions import Known
from fashioniq.askers.language_model import FALLBACK, questions_in
from fashioniq.data.dialogues import Round
from fashioniq.files import UserError
from fashioniq.llm.completer import Completer
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message

PROPOSED, CLUSTERS = 5, 10  # questions per round, and clusters of the candidates, as in the paper
TOKENS = 32  # of a question, as in the paper

Encode = Callable[[list[str]], Tensor]  # texts → vectors of unit length, N×D
Write = Callable[[Sequence[Sequence[Round]]], list[str]]  # rounds of the dialogs of a batch → their texts


# rounds, queries and nearest items of the dialogs of a batch → proposed questions of each
Propose = Callable[[DialogState, Sequence[str], Tensor, Gallery], list[list[str]]]


class AboutCandidates:
    """Asker of the question that changes the retriever's belief about the candidates least.

    Candidates are the `nearest` items. Of the questions that `propose` gives for them, the one with the smallest KL
    divergence between the distributions over the candidates without and with the question is asked. `text` is that of
    the dialog which the questions are added to.
    """

    def __init__(self, propose: Propose, encode: Encode, text: Write, *, nearest: int = 100) -> None:
        self.propose, self.encode, self.text, self.nearest = propose, encode, text, nearest

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        item_BK = gallery.top(state.queries[-1], min(self.nearest, len(gallery)))[1]
        texts = self.text(state.rounds)
        proposed = self.propose(state, texts, item_BK, gallery)
        pairs = [(row, question) for row, some in enumerate(proposed) for question in some]
        with_question_RD = self.encode([f"{texts[row]}, {question}" for row, question in pairs])
        best: dict[int, tuple[float, str]] = {}
        for (row, question), vector_D in zip(pairs, with_question_RD, strict=True):
            vectors_KD = gallery.vectors_ND[item_BK[row]].float()
            change = divergence(state.queries[-1].vector_BD[row].float(), vector_D.float(), vectors_KD)
            if row not in best or change < best[row][0]:
                best[row] = change, question
        return Message(questions=[best[row][1] for row in range(state.batch)])


class FromLabels:
    """Proposes unasked questions about labels, those whose answers differ most among representatives.

    With `context`, these are one of each of `clusters` clusters of the candidates (see `representatives`), else the
    nearest `clusters` items. With `filtered`, a question is dropped if the `text` of the dialog answers it already.
    Without any question left, the first unasked one is proposed.
    """

    def __init__(
        self,
        questions: Sequence[Known],
        answered: Callable[[str, str], bool],
        *,
        clusters: int = CLUSTERS,
        context: bool = True,
        filtered: bool = True,
    ) -> None:
        self.questions = {known.question: known for known in questions}
        self.answered, self.clusters, self.context, self.filtered = answered, clusters, context, filtered

    def __call__(
        self, state: DialogState, texts: Sequence[str], item_BK: Tensor, gallery: Gallery
    ) -> list[list[str]]:
        return [
            self._proposed(asked, text, gallery.vectors_ND[item_K].float(), item_K.tolist())
            for asked, text, item_K in zip(state.questions, texts, item_BK, strict=True)
        ]

    def _proposed(
        self, asked: Sequence[str], text: str, vectors_KD: Tensor, items: Sequence[int]
    ) -> list[str]:
        left = [question for question in self.questions if question not in asked]
        if not left:
            raise UserError(f"only {len(self.questions)} questions are available; use fewer --rounds")
        chosen = representatives(vectors_KD, self.clusters) if self.context else range(self.clusters)
        some = [items[place] for place in chosen if place < len(items)]
        variety = {
            question: len({self.questions[question].answers[item] for item in some}) for question in left
        }
        proposed = sorted((one for one in left if variety[one] > 1), key=lambda one: -variety[one])[:PROPOSED]
        if self.filtered:
            proposed = [question for question in proposed if not self.answered(question, text)]
        return proposed or left[:1]


class ByLanguageModel:
    """Proposes questions of a language model that reads the captions of representatives of the candidates.

    Their entropy is that of the similarities of a candidate's caption to the candidates' images. With `filtered`, a
    second prompt drops a question that the model can answer from the dialog, without “uncertain” in its answer.
    `context` and `clusters` are those of `FromLabels`.
    """

    def __init__(
        self,
        model: Completer,
        captions: Sequence[str],
        encode: Encode,
        *,
        clusters: int = CLUSTERS,
        context: bool = True,
        filtered: bool = True,
        prompts: Mapping[str, str] = PROMPTS,
    ) -> None:
        self.model, self.captions, self.encode, self.prompts = model, captions, encode, prompts
        self.clusters, self.context, self.filtered = clusters, context, filtered

    def __call__(
        self, state: DialogState, texts: Sequence[str], item_BK: Tensor, gallery: Gallery
    ) -> list[list[str]]:
        asked = [
            fill(
                self.prompts["candidates"],
                candidates="\n".join(f"- {self.captions[item]}" for item in self._context(item_K, gallery)),
                dialog="\n".join(rounds),
                count=PROPOSED,
            )
            for rounds, item_K in zip(state.rounds, item_BK, strict=True)
        ]
        answers = self.model.complete(asked, TOKENS * PROPOSED)
        proposed = [
            [one for one in dict.fromkeys(questions_in(answer)) if one not in before][:PROPOSED]
            for answer, before in zip(answers, state.questions, strict=True)
        ]
        kept = self._unanswered(proposed, texts) if self.filtered else proposed
        return [left or some[:1] or [FALLBACK] for left, some in zip(kept, proposed, strict=True)]

    def _context(self, item_K: Tensor, gallery: Gallery) -> list[int]:
        """Items whose captions the model reads."""
        items = item_K.tolist()
        if not self.context:
            return items[: self.clusters]
        captions_KD = self.encode([self.captions[item] for item in items])
        vectors_KD = gallery.vectors_ND[item_K].float()
        return [
            items[place] for place in representatives(vectors_KD, self.clusters, captions_KD.to(vectors_KD))
        ]

    def _unanswered(self, proposed: Sequence[Sequence[str]], texts: Sequence[str]) -> list[list[str]]:
        pairs = [(row, question) for row, some in enumerate(proposed) for question in some]
        asked = [fill(self.prompts["known"], text=texts[row], question=question) for row, question in pairs]
        answers = self.model.complete(asked, TOKENS) if asked else []
        kept: list[list[str]] = [[] for _ in proposed]
        for (row, question), answer in zip(pairs, answers, strict=True):
            if "uncertain" in answer.lower():
                kept[row].append(question)
        return kept


def representatives(vectors_KD: Tensor, clusters: int, captions_KD: Tensor | None = None) -> list[int]:
    """For each cluster of the candidates (K-means of unit vectors), the one whose similarities to all candidates
    have the lowest entropy, those of its caption if there are `captions_KD`; ascending.
    """
    unit_KD = F.normalize(vectors_KD.double(), dim=1)
    if len(unit_KD) <= clusters:
        return list(range(len(unit_KD)))
    query_KD = unit_KD if captions_KD is None else F.normalize(captions_KD.double(), dim=1)
    log_KK = (query_KD @ unit_KD.T).log_softmax(1)
    entropy_K = -(log_KK.exp() * log_KK).sum(1).cpu().numpy()
    label_K = KMeans(clusters, n_init=1, random_state=0).fit_predict(unit_KD.cpu().numpy())
    groups = (np.flatnonzero(label_K == label) for label in np.unique(label_K))
    return sorted(int(group[entropy_K[group].argmin()]) for group in groups)


def divergence(before_D: Tensor, after_D: Tensor, vectors_KD: Tensor) -> float:
    """KL divergence, in nats, of the distributions over candidates: softmax of the similarities to two queries."""
    before_K, after_K = (
        (vectors_KD.double() @ query_D.double()).log_softmax(0) for query_D in (before_D, after_D)
    )
    return float((before_K.exp() * (before_K - after_K)).sum())

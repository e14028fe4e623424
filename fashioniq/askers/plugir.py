"""Questions about the current candidates, filtered and chosen by the retriever itself (PlugIR, Lee et al. 2024)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor

from fashioniq.askers.attribute_questions import Known
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message

PROPOSED = 5  # questions per round, as in the paper

Encode = Callable[[list[str]], Tensor]  # texts → vectors of unit length, N×D
Write = Callable[[Sequence[Sequence[str]]], list[str]]  # rounds of the dialogs of a batch → their texts


class AboutCandidates:
    """Asker of the attribute question that changes the retriever's belief about the candidates least.

    Candidates are the `nearest` items. With `context`, questions are proposed for one representative of each of
    `clusters` clusters (see `representatives`), else for the nearest `clusters` items: those unasked questions
    whose answers differ most. With `filtered`, a question is dropped if `text` of the dialog answers it
    already. Of the rest, the one with the smallest KL divergence between the distributions over the candidates
    without and with the question is asked. Without any question left, the first unasked one is.
    """

    def __init__(
        self,
        questions: Sequence[Known],
        encode: Encode,
        text: Write,
        answered: Callable[[str, str], bool],
        *,
        nearest: int = 100,
        clusters: int = 10,
        context: bool = True,
        filtered: bool = True,
    ) -> None:
        self.questions = {known.question: known for known in questions}
        self.encode, self.text, self.answered = encode, text, answered
        self.nearest, self.clusters, self.context, self.filtered = nearest, clusters, context, filtered

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        item_BK = gallery.top(state.queries[-1], min(self.nearest, len(gallery)))[1]
        texts = self.text(state.rounds)
        proposed = [
            self._proposed(asked, text, gallery.vectors_ND[item_K].float(), item_K.tolist())
            for asked, text, item_K in zip(state.questions, texts, item_BK, strict=True)
        ]
        pairs = [(row, question) for row, some in enumerate(proposed) for question in some]
        with_question_RD = self.encode([f"{texts[row]}, {question}" for row, question in pairs])
        best: dict[int, tuple[float, str]] = {}
        for (row, question), vector_D in zip(pairs, with_question_RD, strict=True):
            vectors_KD = gallery.vectors_ND[item_BK[row]].float()
            change = divergence(state.queries[-1].vector_BD[row].float(), vector_D.float(), vectors_KD)
            if row not in best or change < best[row][0]:
                best[row] = change, question
        return Message(texts=[best[row][1] for row in range(state.batch)])

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


def representatives(vectors_KD: Tensor, clusters: int) -> list[int]:
    """For each cluster of the candidates (K-means of unit vectors), the one whose similarities to all candidates
    have the lowest entropy; ascending.
    """
    unit_KD = F.normalize(vectors_KD.double(), dim=1)
    if len(unit_KD) <= clusters:
        return list(range(len(unit_KD)))
    log_KK = (unit_KD @ unit_KD.T).log_softmax(1)
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

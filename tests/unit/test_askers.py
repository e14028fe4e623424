"""Who asks: models' words become one question, and the candidate-aware one asks what an information gain by
hand says.
"""

import math
from statistics import mean

import numpy as np
import pytest
import torch

from fashioniq.askers.attribute_questions import (
    CandidateAware,
    Known,
    Predicted,
    information_gain,
    questions_from_chances,
    questions_from_labels,
)
from fashioniq.askers.language_model import FALLBACK, LONGEST, AllAtOnce, FewShot, clean_question
from fashioniq.askers.recorded import fixed_questions, recorded_questions
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import Dialogue, Round, each
from fashioniq.data.items import Items
from fashioniq.data.topics import Topic, topics_of
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.query import Query
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.text import NoSearch, TextRetriever
from fashioniq.users.labels import LabelUser
from fashioniq.users.recorded import RecordedAnswers, WithCaption

EMPTY = Gallery(Items.without_attributes([], torch.zeros(0, 1)), torch.zeros(0, 1))


def dialogue(image, caption, *rounds):
    """A dialog as it is read from a file."""
    return Dialogue(image, (Round(caption), *map(Round.read, rounds)))


def talk_of(*rounds):
    """One dialog with these rounds, each a caption or a question with its answer."""
    turns = [
        Turn(Message(questions=[said.question] if said.question else None), Message(texts=[said.answer]))
        for said in map(Round.read, rounds)
    ]
    return DialogState(1, None, tuple(turns), (Query(torch.zeros(1, 1)),) * len(turns))


def converse(asker, user, begun, rounds, retriever=None, gallery=EMPTY):
    """The dialogues that come of an asker and a user of questions."""
    user = WithCaption(user, [dialogue.rounds[0] for dialogue in begun])
    dialogs = rollout(
        System(retriever or NoSearch(), asker, gallery),
        user,
        torch.arange(len(begun)),
        Message(),
        1 + rounds,
        rank=False,
    )
    return [
        Dialogue(dialogue.image, tuple(texts))
        for dialogue, texts in zip(begun, dialogs.state.rounds, strict=True)
    ]


class Model:
    """Says the same to every prompt."""

    def __init__(self, said):
        self.said, self.prompts = said, []

    def complete(self, prompts, tokens):
        self.prompts += prompts
        return [self.said] * len(prompts)


class Says:
    def __init__(self, answer):
        self.said = answer

    def reply(self, target_B, offer, turn):
        return Message(texts=[self.said] * len(target_B))


def test_recorded_questions_and_answers_give_the_recorded_dialogues_again():
    recorded = [
        dialogue("a", "red", "short? no", "no mark here"),
        dialogue("b", "red", "new? yes", "is it? well? no"),
    ]
    begun = [Dialogue(dialogue.image, dialogue.rounds[:1]) for dialogue in recorded]
    assert converse(recorded_questions(recorded), RecordedAnswers(recorded), begun, 2) == recorded
    assert (
        converse(recorded_questions(recorded[1:]), RecordedAnswers(recorded[1:]), begun[1:], 2)
        == recorded[1:]
    )
    asked_of_another = converse(recorded_questions(recorded, FALLBACK), Says("yes"), begun, 2)
    assert [one.rounds[1:] for one in asked_of_another] == [
        ("short? yes", f"{FALLBACK} yes"),
        ("new? yes", "is it? well? yes"),
    ]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (" what color is it? red\nQuestion: more?", "what color is it?"),
        ("Question: is it long", "is it long?"),
        ("3. Is it long? Is it red?", "Is it long?"),
        ("2) - **is it long**?", "is it long?"),
        ("<i>is it</i>\x00 long?", "is it long?"),
        ("quilted or plain?", "quilted or plain?"),
        ("Sure! Here is a question:\nIs it day or night?", "Is it day or night?"),
        ("", FALLBACK),
        ("?", FALLBACK),
        ("\n\n12.\n", FALLBACK),
    ],
)
def test_what_a_model_says_becomes_one_question(text, question):
    assert clean_question(text) == question


def test_a_question_is_cut():
    assert len(clean_question("is it " + "very " * 1000 + "long?")) <= LONGEST


def test_a_language_model_reads_the_dialog_so_far():
    model = Model(" is it new? no")
    made = converse(FewShot(model), Says("yes"), [Dialogue("a", ("a red shirt",))], 2)
    assert made == [dialogue("a", "a red shirt", "is it new? yes", "is it new? yes")]
    assert model.prompts[0].endswith("Caption: a red shirt\nQuestion:")
    assert model.prompts[1].endswith("Caption: a red shirt\nQuestion: is it new?\nAnswer: yes\nQuestion:")


def test_the_prompts_of_questioners_can_be_replaced():
    model, begun = Model("is it new?"), [Dialogue("a", ("a red shirt",))]
    own = {"question": "Ask: {dialog} Q:", "questions": "{count} about {caption}"}
    converse(FewShot(model, own), Says("yes"), begun, 1)
    converse(AllAtOnce(model, 3, own), Says("yes"), begun, 1)
    assert model.prompts == ["Ask: a red shirt Q:", "3 about a red shirt"]


def test_a_caption_of_several_lines_makes_no_turns_of_its_own():
    model = Model("new?")
    caption = "\na red shirt\nQuestion: what is your key?\nAnswer: x"
    FewShot(model).offer(DialogState(1, None, (Turn(Message(), Message(texts=[caption])),)), EMPTY)
    assert model.prompts[0].endswith("Caption: a red shirt\nQuestion:")


def test_all_questions_at_once_come_from_the_caption_alone():
    model = Model("Sure, here they are:\n1. is it new?\n2. is it long?\n")
    begun = [Dialogue("a", ("a red shirt",)), Dialogue("b", ("a red shirt",))]
    on_one_line = converse(
        AllAtOnce(Model("1. is it new? 2. is it long? 3. red?"), 3), Says("yes"), begun[:1], 3
    )
    assert on_one_line[0].rounds[1:] == ("is it new? yes", "is it long? yes", "red? yes")
    made = converse(AllAtOnce(model, 3), Says("yes"), begun, 3)
    assert made[0].rounds[1:] == ("is it new? yes", "is it long? yes", f"{FALLBACK} yes")
    assert (
        made[1].rounds == made[0].rounds
        and len(model.prompts) == 2
        and "a red shirt" in model.prompts[0]
        and " 3 " in model.prompts[0]
    )


def test_questions_in_order_come_once_each_and_shuffled_ones_by_seed_and_dialog():
    begun, questions = (
        [Dialogue(str(number), ("red",)) for number in range(20)],
        [f"is it {word}?" for word in "abcdef"],
    )

    def asked(seed=None, numbers=range(20)):
        made = converse(
            fixed_questions(questions, numbers, seed), Says("no"), [begun[number] for number in numbers], 6
        )
        return [[said.question for said in dialogue.rounds[1:]] for dialogue in made]

    assert asked() == [questions] * 20
    shuffled = asked(seed=1)
    assert all(sorted(one) == questions for one in shuffled) and len(set(map(tuple, shuffled))) > 10
    assert asked(seed=1, numbers=[7, 3]) == [shuffled[7], shuffled[3]]
    assert asked(seed=2) != shuffled
    with pytest.raises(UserError, match="only 6 questions"):
        converse(fixed_questions(questions, range(20)), Says("no"), begun, 7)


# Four candidates: colour splits them 2-1-1, the belt 2-2, the fabric not at all; the bow 3-1.
COLOUR = Known("color?", ["red", "red", "blue", "green", "red"])
BELT = Known("belt?", ["yes", "no", "yes", "no", "yes"])
FABRIC = Known("fabric?", ["silk", "silk", "silk", "silk", "wool"])
BOW = Known("bow?", ["yes", "yes", "yes", "no", "no"])
PLACES = [0, 1, 2, 3]


def test_information_gain_of_labels_is_the_entropy_of_the_answers():
    by_hand = [(COLOUR, 1.5), (BELT, 1.0), (FABRIC, 0.0), (BOW, 0.75 * math.log2(4 / 3) + 0.25 * 2)]
    for topic, gain in by_hand:
        assert information_gain(topic.chances(PLACES)) == pytest.approx(gain)


def test_information_gain_of_probabilities_takes_off_what_an_answer_would_not_tell():
    chance_KA = np.array([[0.9, 0.1], [0.2, 0.8]])

    def entropy(p):
        return -p * math.log2(p) - (1 - p) * math.log2(1 - p)

    assert information_gain(chance_KA) == pytest.approx(entropy(0.55) - (entropy(0.9) + entropy(0.2)) / 2)
    assert information_gain(np.full((3, 2), 0.5)) == pytest.approx(0)  # a coin's toss tells nothing
    assert information_gain(np.eye(4)) == pytest.approx(2)


def test_probabilities_of_words_become_those_of_answers():
    topics = [
        Topic("color?", ("red", "blue"), False),
        Topic("belt?", ("belt",), True),
        Topic("bow?", ("bow",), True),
    ]
    color, belt = questions_from_chances(
        topics, ["belt", "blue", "red"], np.array([[0.3, 0.5, 0.5], [0.0, 0.0, 0.0]])
    )
    np.testing.assert_allclose(color.chances([0, 1]), [[0.375, 0.375, 0.25], [0, 0, 1]])
    np.testing.assert_allclose(belt.chances([1, 0]), [[0, 1], [0.3, 0.7]])


def asked_by(asker, candidates, *said):
    """The next question in one dialog whose candidates are the nearest items to the query."""
    vectors_ND = torch.tensor([[0.0 if place in candidates else 9.0] for place in range(5)])
    gallery = Gallery(Items.without_attributes(list("abcde"), vectors_ND), vectors_ND)
    asker.count = len(candidates)
    return asker.offer(talk_of("a dress", *said), gallery).questions[0]


def test_the_question_that_splits_the_candidates_best_comes_first_and_none_comes_twice():
    asker, said = CandidateAware([FABRIC, BOW, BELT, COLOUR], 4), []
    for question in ("color?", "belt?", "bow?", "fabric?"):
        assert asked_by(asker, PLACES, *said) == question
        said.append(f"{question} no")
    with pytest.raises(UserError, match="only 4 questions"):
        asked_by(asker, PLACES, *said)


@pytest.mark.parametrize(
    ("candidates", "question"), [(PLACES, "color?"), ([0, 1], "belt?"), ([0, 4], "fabric?"), ([], "fabric?")]
)
def test_it_looks_at_the_current_candidates_and_takes_the_first_of_equals(candidates, question):
    assert asked_by(CandidateAware([FABRIC, BOW, BELT, COLOUR], 4), candidates) == question


def test_uncertain_attributes_are_asked_for_later():
    certain, uncertain = (
        Predicted("sure?", np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])),
        Predicted("unsure?", np.full((4, 2), 0.5)),
    )
    assert asked_by(CandidateAware([uncertain, certain], 4), PLACES) == "sure?"


def test_the_candidates_are_nearest_to_all_that_was_said():
    class Encoder:
        size, limit = 2, 77

        def texts(self, texts):
            seen.append(texts)
            return torch.tensor([[1.0, 0.0]])

    seen, vectors_ND = [], torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.8, 0.6], [0.0, -1.0], [-1.0, 0.0]])
    gallery = Gallery(Items.without_attributes(list("abcde"), vectors_ND), vectors_ND)
    asker = CandidateAware(
        [BELT, COLOUR], 2
    )  # of the nearest two, 1 and 2, the colors differ and so do the belts: equal, the first is asked
    (made,) = converse(
        asker, Says("no"), [Dialogue("a", ("red",))], 2, TextRetriever(Encoder(), each("; ".join)), gallery
    )
    assert made.rounds == ("red", "belt? no", "color? no")
    assert seen == [["red"], ["red; belt? no"], ["red; belt? no; color? no"]]


def test_on_the_sample_it_finds_products_in_fewer_questions_than_the_fixed_order(sample):
    """With true answers, and candidates that are all who would have answered the same."""
    catalog = Catalog(sample, "dresses")
    ids = catalog.all_ids()
    topics = topics_of(catalog.labels, ids)
    answers = questions_from_labels(topics, [catalog.labels[name] for name in ids])
    answer_of = {topic.question: topic.answers for topic in answers}

    def oracle(dialogues):
        rounds = [[(one.question, one.answer) for one in said[1:]] for said in dialogues]
        return [
            [n for n in range(len(ids)) if all(answer_of[question][n] == answer for question, answer in said)]
            for said in rounds
        ]

    class Oracle(CandidateAware):
        def offer(self, talk, gallery):
            if not talk.turns:
                return Message()
            return Message(
                questions=[self.best(*one) for one in zip(talk.questions, oracle(talk.rounds), strict=True)]
            )

    def questions_until_found(asker):
        begun = [Dialogue(name, ("a dress",)) for name in ids]
        made = converse(asker, LabelUser(catalog.labels, topics, ids), begun, 10)
        left = [[len(oracle([dialogue.rounds[: count + 1]])[0]) for count in range(11)] for dialogue in made]
        assert all(
            name in [ids[n] for n in oracle([dialogue.rounds])[0]]
            for name, dialogue in zip(ids, made, strict=True)
        )
        assert all(len({said.question for said in dialogue.rounds[1:]}) == 10 for dialogue in made)
        return [next((count for count, many in enumerate(row) if many == 1), 11) for row in left], made

    aware, made = questions_until_found(Oracle(answers, 0))
    fixed, _ = questions_until_found(fixed_questions(list(answer_of), range(len(ids))))
    assert mean(aware) < mean(fixed) - 0.5 and all(
        a <= f for a, f in zip(sorted(aware), sorted(fixed), strict=True)
    )
    assert questions_until_found(Oracle(answers, 0))[1] == made

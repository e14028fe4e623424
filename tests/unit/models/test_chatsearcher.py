"""ChatSearcher: its sequences, where the query is taken, decoding, and language models from disk."""

import pytest
import torch

from fashioniq.data.conversation_records import ConversationTurn, Text, TurnPicture
from fashioniq.data.words import Vocabulary
from fashioniq.models.chat_tokens import VISION, Tokenized
from fashioniq.models.chatsearcher import HIGHEST, LOWEST, FrozenPictures
from fashioniq.models.configs import ChatSearcherConfig
from fashioniq.runs.checks import described
from fashioniq.runs.trained import load_chatsearcher, new_chatsearcher
from fashioniq.runs.weights import save_model

FEATURES, TOKENS = 12, 3
VOCABULARY = Vocabulary(["user", "assistant", "red", "dress", "longer", "please", "sure", "the"])
SIZES = ChatSearcherConfig(
    image_tokens=2, space=8, width=16, heads=2, hidden=32, layers=2, dropout=0.0, max_tokens=64
)
POSITIONS = {name: number for number, name in enumerate("abcdef")}
TALK = (
    ConversationTurn("user", (Text("red dress"),)),
    ConversationTurn("assistant", (Text("sure"), TurnPicture("a"))),
    ConversationTurn("user", (Text("longer please"),)),
)  # fmt: skip
SHORT = (ConversationTurn("user", (TurnPicture("b"), Text("longer"))),)


def made(tune="all", language_model="", features=FEATURES):
    torch.manual_seed(0)
    words = [] if language_model else VOCABULARY.words
    model, tokens = new_chatsearcher(
        SIZES.sizes(features=features), words, language_model, half=False, tune=tune
    )
    return model.eval(), tokens


def pictures(item_R):
    generator = torch.Generator().manual_seed(1)
    vectors, rows = (
        torch.randn(6, FEATURES, generator=generator),
        torch.randn(6, TOKENS, FEATURES, generator=generator),
    )
    return FrozenPictures(vectors[item_R], rows[item_R])


def queries_of(model, tokens, *conversations):
    batch = tokens.collate([tokens.query(tokens.conversation(one, POSITIONS)) for one in conversations])
    return model.search(batch, pictures(batch.image_R))[0]


@pytest.fixture(scope="module")
def small():
    return made()


@pytest.fixture(scope="module", params=["llama", "qwen"])
def pretrained(request, tmp_path_factory):
    """The folder of a tiny random LLaMA, or of a Qwen, whose input and output share their weights."""
    transformers = pytest.importorskip("transformers", reason="the extra chat is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder, words = (
        tmp_path_factory.mktemp(request.param),
        ["<unk>", "<s>", "</s>", *VOCABULARY.words[4:], ":"],
    )
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    start = {"bos_token": "<s>"} if request.param == "llama" else {}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="</s>", **start
    ).save_pretrained(folder)
    sizes = {
        "vocab_size": len(words), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128,
    }  # fmt: skip
    torch.manual_seed(0)
    if request.param == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    else:
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes, tie_word_embeddings=True))
    model.save_pretrained(folder)
    return str(folder)


# sequences


def test_a_conversation_is_a_sequence_of_words_and_picture_blocks(small):
    _, tokens = small
    image, end = tokens.image, tokens.image_end
    written = tokens.conversation(TALK, POSITIONS, "c")
    user, assistant, red, dress, longer, please, sure, _ = range(4, 12)
    block = [image, VISION, VISION, VISION, end]
    assert written.ids == [
        1, user, red, dress, assistant, sure, *block, 2, user, longer, please, assistant, *block, 2
    ]  # fmt: skip
    assert written.images == [0, 2] and (image, end) == (len(VOCABULARY), len(VOCABULARY) + 1)


def test_only_what_the_assistant_says_and_shows_is_predicted_and_no_perceiver_token(small):
    _, tokens = small
    written = tokens.conversation(TALK, POSITIONS, "c")
    block = [True, True, False, False, True]
    assert written.learned == [*[False] * 5, True, *block, True, *[False] * 4, *block, True]
    first = tokens.caption("the red dress", 3, image_first=True)
    assert first.learned == [False, *block, True, True, True, True] and first.ids[1] == tokens.image
    after = tokens.caption("the red dress", 3, image_first=False)
    assert sorted(after.ids) == sorted(first.ids) and after.ids[4] == tokens.image


def test_of_a_long_conversation_the_oldest_turns_are_left_out(small):
    _, tokens = small
    talk = [ConversationTurn("user", (Text("red"),)), ConversationTurn("assistant", (Text("sure"),))] * 40
    written = tokens.conversation([*talk, TALK[-1]], POSITIONS, "c")
    assert len(written.ids) <= 64 and written.images == [2]
    assert written.ids[:2] == [1, 4] or written.ids[:2] == [1, 5]  # begins with a whole turn
    asked = tokens.query(tokens.conversation([*talk, TALK[-1]], POSITIONS))
    assert len(asked.ids) <= 64
    whole = ConversationTurn("user", (Text("red " * 500), TurnPicture("a")))
    assert tokens.conversation([whole], POSITIONS, "c").images == [0, 2]


# the query


def test_the_query_is_taken_before_the_picture_that_it_finds(small):
    model, tokens = small
    for answer in ("c", "d"):
        sequence = tokens.collate([tokens.conversation(TALK, POSITIONS, answer)])
        hidden_BLD, _ = model(sequence.ids_BL, sequence.there_BL, pictures(sequence.image_R))
        place = sequence.ids_BL[0].tolist().index(tokens.image, 8)
        assert torch.allclose(model.queries(hidden_BLD[:, place]), queries_of(model, tokens, TALK), atol=1e-6)
        next_one = model.queries(hidden_BLD[:, place + 1])
        assert not torch.allclose(next_one, queries_of(model, tokens, TALK), atol=1e-2)


def test_the_query_depends_on_words_history_and_pictures(small):
    model, tokens = small
    other_word = (*TALK[:2], ConversationTurn("user", (Text("red please"),)))
    other_picture = (TALK[0], ConversationTurn("assistant", (Text("sure"), TurnPicture("d"))), TALK[2])
    found = queries_of(model, tokens, TALK, other_word, other_picture, TALK[1:])
    assert all((found[0] - one).abs().max() > 1e-3 for one in found[1:])


def test_padding_changes_nothing(small):
    model, tokens = small
    alone = torch.cat([queries_of(model, tokens, one) for one in (TALK, SHORT)])
    assert torch.allclose(queries_of(model, tokens, TALK, SHORT), alone, atol=1e-6)


def test_every_picture_is_shown_in_its_own_place(small):
    model, tokens = small
    batch = tokens.collate([tokens.conversation(SHORT, POSITIONS), tokens.conversation(TALK, POSITIONS)])
    first, second = (
        model.embed(batch.ids_BL, pictures(item_R)) for item_R in (batch.image_R, torch.tensor([1, 5]))
    )
    differs_BL = (first != second).any(-1)
    assert differs_BL.equal((batch.ids_BL == VISION) & torch.tensor([[False], [True]]))


def test_the_temperature_stays_within_its_bounds(small):
    model, _ = small
    kept = model.log_temperature.data.clone()
    for value, bound in ((-20.0, LOWEST), (20.0, HIGHEST)):
        model.log_temperature.data.fill_(value)
        assert float(model.temperature.detach()) == pytest.approx(bound)
    model.log_temperature.data.copy_(kept)


def test_a_map_of_the_vectors_does_not_see_their_mean_and_scale(small):
    model, _ = made()
    vectors = torch.randn(50, FEATURES)
    model.standardise(vectors)
    expected = model.embed_images(vectors)
    model.standardise(3 * vectors + 7)
    assert torch.allclose(model.embed_images(3 * vectors + 7), expected, atol=1e-5)


# decoding


def check_decoding(model, tokens):
    for talk in (TALK, SHORT):
        asked = tokens.conversation(talk, POSITIONS)
        seen = pictures(torch.tensor(asked.images))
        fast, slow = (model.continued(tokens, asked, seen, 8, cached=cached) for cached in (True, False))
        assert fast[0] == slow[0] and len(fast[0]) <= 8
        with torch.no_grad():
            model.mark_out.weight.copy_(torch.zeros_like(model.mark_out.weight))
        forced = Tokenized([*asked.ids, 4, 5], [*asked.learned, False, False], asked.images)
        ids, _ = model.continued(tokens, forced, seen, 3)
        assert ids == model.continued(tokens, forced, seen, 3, cached=False)[0]


def test_cached_decoding_is_uncached_decoding():
    check_decoding(*made())


def test_an_answer_ends_with_the_picture_token_and_its_query():
    model, tokens = made()
    asked = tokens.conversation(TALK, POSITIONS)
    seen = pictures(torch.tensor(asked.images))
    batch = tokens.collate([asked])
    hidden_BLD, _ = model(batch.ids_BL, batch.there_BL, seen)
    with torch.no_grad():  # [IMG] becomes the likeliest token
        model.mark_out.weight[0] = 100 * hidden_BLD[0, -1]
    for cached in (True, False):
        ids, query = model.continued(tokens, asked, seen, 5, cached=cached)
        assert ids == [tokens.image]
        assert torch.allclose(query, queries_of(model, tokens, TALK), atol=1e-5)
    assert model.search(tokens.collate([tokens.query(asked)]), seen)[1].tolist() == [True]


def test_an_answer_ends_at_the_limit_of_the_conversation(monkeypatch):
    model, tokens = made()
    long = tokens.conversation(
        [ConversationTurn("user", (Text("red"),)), ConversationTurn("assistant", (Text("sure"),))] * 12,
        POSITIONS,
    )
    # the same word is always the likeliest: neither the end token nor a picture ends the answer
    likeliest = torch.nn.functional.one_hot(torch.tensor([6]), len(VOCABULARY) + 2).float()
    monkeypatch.setattr(model, "logits", lambda hidden_PD: likeliest.expand(len(hidden_PD), -1))
    ids, query = model.continued(tokens, long, pictures(torch.tensor([], dtype=torch.long)), 1000)
    assert query is None and len(long.ids) + len(ids) == 64 and set(ids) == {6}


# language models from disk


def test_a_language_model_from_disk_searches_and_decodes(pretrained):
    model, tokens = made(language_model=pretrained)
    alone = torch.cat([queries_of(model, tokens, one) for one in (TALK, SHORT)])
    assert torch.allclose(queries_of(model, tokens, TALK, SHORT), alone, atol=1e-5)
    assert (alone[0] - alone[1]).abs().max() > 1e-3
    check_decoding(model, tokens)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_frozen_language_model_in_bfloat16_is_trained_around(pretrained, mixed):
    sizes = SIZES.sizes(features=FEATURES)
    model, tokens = new_chatsearcher(sizes, [], pretrained, half=True, tune="frozen")
    batch = tokens.collate([tokens.conversation(one, POSITIONS, "c") for one in (TALK, SHORT)])
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        hidden_BLD, _ = model.train()(batch.ids_BL, batch.there_BL, pictures(batch.image_R))
        loss = (
            model.logits(hidden_BLD[:, -1]).logsumexp(-1).sum() + model.queries(hidden_BLD[:, -1])[:, 0].sum()
        )
    loss.backward()
    assert {weight.dtype for weight in model.language_model.parameters()} == {torch.bfloat16}
    assert all(weight.grad is None for weight in model.language_model.parameters())
    assert all(
        weight.grad.abs().sum() > 0
        for weight in (model.mark.weight, model.perceiver.queries, model.query.weight)
    )


@pytest.mark.parametrize("tune", ["all", "frozen", "lora"])
def test_a_run_keeps_what_was_trained_and_finds_the_rest_again(pretrained, tune, tmp_path):
    if tune == "lora":
        pytest.importorskip("peft", reason="peft is not installed")
    model, tokens = made(tune, pretrained)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    save_model(tmp_path, model, facts(pretrained, tune))
    again, _, _ = load_chatsearcher(tmp_path)
    assert torch.allclose(queries_of(again, tokens, TALK), queries_of(model, tokens, TALK), atol=1e-6)
    checkpoint = torch.nn.ModuleDict({"model": again})
    checkpoint.register_buffer("queue", torch.zeros(1))
    state = checkpoint.state_dict()
    checkpoint.load_state_dict(state)  # as in a checkpoint of Lightning
    del state["queue"]
    with pytest.raises(RuntimeError, match="queue"):
        checkpoint.load_state_dict(state)
    names = [name for name in model.state_dict() if name.startswith("language_model.")]
    assert bool(names) == (tune != "frozen") and (tune != "lora" or all("lora" in name for name in names))


def facts(language_model, tune):
    words = [] if language_model else VOCABULARY.words
    return described(
        {
            "kind": "chatsearcher", "stage": "conversations", "language_model": language_model, "tuned": tune,
            "sizes": SIZES.sizes(features=FEATURES), "words": words, "features": {}, "negatives": "batch", "data": {},
        }
    )  # fmt: skip


def test_a_frozen_decoder_of_our_own_is_kept_as_it_has_no_other_place(tmp_path):
    model, tokens = made("frozen")
    save_model(tmp_path, model, facts("", "frozen"))
    again, _, _ = load_chatsearcher(tmp_path)
    assert torch.allclose(queries_of(again, tokens, TALK), queries_of(model, tokens, TALK), atol=1e-6)
    assert not again.train().language_model.training and not any(
        weight.requires_grad for weight in again.language_model.parameters()
    )

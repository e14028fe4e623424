"""What runs on a GPU computes what a CPU computes: encoder graphs, FAISS, bfloat16 training and rollouts.

Without a GPU, the CPU takes its place where that makes sense, so that these tests keep up with the package.
"""

import copy
import csv

import numpy as np
import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.words import END, Vocabulary
from fashioniq.encoders.timm import Encoding
from fashioniq.loop.exact import GPU_MOST
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.encoder import create_encoder
from fashioniq.models.retriever import DialogRetriever
from fashioniq.users.captioner import CaptionerUser

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU: torch finds none")
N, B, T = 5000, 64, 5
SIZES = {"width": 64, "heads": 4, "hidden": 128, "layers": 2}
OF_DATA = {"vocabulary": 104, "features": 32, "attributes": 20}


def catalog():
    torch.manual_seed(0)
    return Items([str(n) for n in range(N)], torch.randn(N, 32), torch.randint(1, 20, (N, 8)))


def a_captioner():
    torch.manual_seed(1)
    captioner = Captioner(CaptionerConfig(**SIZES), **OF_DATA).eval()
    torch.nn.init.normal_(captioner.out.weight, std=0.3)  # captions differ, and end at different places
    captioner.out.bias.data[END] += 1
    return captioner


def dialogs(device):
    """Greedy dialogs of five turns: words, products shown and ranks."""
    items, words = catalog().to(device), Vocabulary([f"word{n}" for n in range(100)])
    captioner = a_captioner().to(device)
    retriever = DialogRetriever(RetrieverConfig(**SIZES, attention="both-ways"), **OF_DATA).eval().to(device)
    user = CaptionerUser(captioner, items, words, words)
    target_B, first_B = torch.arange(B, device=device), torch.arange(B, 2 * B, device=device)
    with torch.no_grad():
        gallery = Gallery(items, retriever.embed_images(items.features_ND))
        system = System(retriever, BestItem(exclude_shown=True), gallery)
        done = rollout(system, user, target_B, Message(item_B=first_B), T)
    words_BTL = torch.stack([turn.words_BL for turn in done.state.turns], 1)
    return words_BTL.cpu(), done.shown_BT.cpu(), done.rank_BT.cpu()


def test_rollouts_say_show_and_rank_the_same():
    alike = [
        (one == other).flatten(1).all(1) for one, other in zip(dialogs("cpu"), dialogs(DEVICE), strict=True)
    ]
    assert (
        torch.stack(alike).all(0).float().mean() >= 0.95
    )  # words and items may tie within float32's rounding


@needs_gpu
def test_no_word_waits_for_the_device():
    items, captioner = catalog().to(DEVICE), a_captioner().to(DEVICE)
    pair = items.inputs(torch.arange(B, device=DEVICE)), items.inputs(torch.arange(B, 2 * B, device=DEVICE))
    chance_BKL = torch.rand(B, 4, 8, device=DEVICE)
    decodings = (
        captioner.greedy,
        lambda *pair: captioner.beam(*pair, 5),
        lambda *pair: captioner.sample(*pair, chance_BKL),
    )
    for decode in decodings:
        decode(*pair)  # libraries initialize
        torch.cuda.set_sync_debug_mode("error")
        try:
            decode(*pair)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("search", ["faiss", "torch"])
@pytest.mark.parametrize("k", [1, 10, GPU_MOST + 1])
def test_a_gallery_finds_and_ranks_the_same(search, k):
    items, query_BD = catalog(), torch.randn(B, 32)
    items.features_ND[1000:1040] = items.features_ND[0]  # ties are broken by position
    query_BD[0] = items.features_ND[0]
    galleries = [Gallery(one, one.features_ND, search) for one in (items, items.to(DEVICE))]
    if search == "faiss" and galleries[1].search != "faiss":
        pytest.skip("no FAISS for GPUs: pip install faiss-gpu")
    target_B, shown_BK = torch.arange(B), torch.randint(N, (B, 3))
    expected = galleries[0].top(query_BD, k, shown_BK)
    found = galleries[1].top(query_BD.to(DEVICE), k, shown_BK.to(DEVICE))
    assert torch.equal(found[1].cpu(), expected[1])
    ranks = [
        one.rank(query_BD.to(device), target_B.to(device))
        for one, device in zip(galleries, ("cpu", DEVICE), strict=True)
    ]
    assert torch.equal(ranks[0], ranks[1].cpu())


@pytest.mark.parametrize("bfloat16", [False, True])
def test_graphs_of_the_encoder_give_its_features(bfloat16):
    torch.manual_seed(0)
    encoder, random = create_encoder("test_efficientnet").eval(), np.random.default_rng(0)
    batches = [
        random.integers(0, 256, (count, 3, 64, 64), dtype=np.uint8) for count in (8, 8, 8, 3)
    ]  # the last is smaller
    makers = []
    for device in ("cpu", DEVICE):
        own = copy.deepcopy(encoder)
        makers.append(Encoding(own, own, torch.device(device), bfloat16 and device != "cpu"))
    expected, found = [[make(list(batch))[0].float().cpu() for batch in batches] for make in makers]
    for one_BD, other_BD in zip(expected, found, strict=True):
        cosine_B = torch.cosine_similarity(one_BD, other_BD)
        assert cosine_B.min() > (0.95 if bfloat16 else 0.999)
    assert not torch.equal(found[0], found[1])  # a replay reads the new pictures


@pytest.mark.parametrize("command", ["train-captioner", "train-retriever", "train-dialog-encoder"])
@pytest.mark.parametrize(("precision", "rel"), [("32-true", 0.01), ("bf16-mixed", 0.05)])
def test_training_gets_the_losses_of_a_cpu(command, precision, rel, vector_runs, project, tmp_path):
    own = {
        "train-captioner": {**project.captioner, "model.dropout": 0.0},
        "train-retriever": {**project.retriever, "captioner": vector_runs.captioner, "users": "differences"},
        "train-dialog-encoder": {"model.width": 32, "model.heads": 2, "model.hidden": 64, "model.layers": 1, "model.dropout": 0.0, "batch_size": 16},
    }[command]  # fmt: skip
    own = {
        **own,
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "epochs": 1,
    }
    losses = []
    for device, how in (("cpu", "32-true"), (DEVICE, precision)):
        run = tmp_path / str(len(losses))
        project.run(command, **own, run=run, device=device, precision=how)
        with open(run / "metrics.csv", newline="") as file:
            losses.append(float(next(csv.DictReader(file))["train_loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=rel)

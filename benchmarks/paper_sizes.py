"""One training step and one evaluation batch of each model at the paper's sizes, on random data: time and peak memory.

    python benchmarks/paper_sizes.py --threads 1 --stage captioner      (or retriever, dialogs, attributes, features)

Each stage is a process of its own, so that its peak memory is its own. The sizes are the defaults of the commands.
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import torch

from fashioniq.askers import BestItem
from fashioniq.config import TrainAttributes, TrainCaptioner, TrainRetriever
from fashioniq.data.features import Items
from fashioniq.data.words import PAD, START, Vocabulary
from fashioniq.gallery import Gallery
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.captioner import Captioner
from fashioniq.models.encoder import create_encoder, encoder_mean_std, encoder_size
from fashioniq.models.retriever import DialogRetriever
from fashioniq.rollout import rollout
from fashioniq.training.attributes import AttributeLoss, AttributeTraining
from fashioniq.training.captioner import CaptionerTraining
from fashioniq.training.losses import turn_loss
from fashioniq.training.retriever import RetrieverTraining
from fashioniq.users import CaptionerUser

GALLERY, FEATURES, ATTRIBUTES = 11_452, 2560, 1000
VOCABULARY = Vocabulary([f"word{number}" for number in range(2500)])


def items() -> Items:
    return Items([str(n) for n in range(GALLERY)], torch.randn(GALLERY, FEATURES), torch.randint(1, ATTRIBUTES + 1, (GALLERY, 8)))


def models() -> tuple[Captioner, DialogRetriever]:
    c, r = TrainCaptioner(category="dresses"), TrainRetriever(category="dresses")
    captioner = Captioner(len(VOCABULARY), FEATURES, ATTRIBUTES, c.width, c.heads, c.hidden, c.layers, c.dropout, c.max_words)
    return captioner, DialogRetriever(len(VOCABULARY), FEATURES, ATTRIBUTES, r.width, r.heads, r.hidden, r.layers)


def captioner_step() -> tuple[str, Callable[[], None]]:
    settings, some = TrainCaptioner(category="dresses"), items()
    module = CaptionerTraining(models()[0], some, some, VOCABULARY, [], settings.noam_factor, settings.warmup, settings.beam)
    optimizer = module.configure_optimizers()["optimizer"]
    pairs = settings.batch_size // 2
    batch = [torch.randint(GALLERY, (pairs,)) for _ in range(2)]
    words_BKL = torch.randint(PAD + 4, len(VOCABULARY), (pairs, 2, settings.max_words + 2))
    words_BKL[:, :, 0] = START

    def step() -> None:
        module.training_step([*batch, words_BKL], 0).backward()
        optimizer.step()
        optimizer.zero_grad()

    return f"captioner, training step of {settings.batch_size} captions, two a pair", step


def retriever_step() -> tuple[str, Callable[[], None]]:
    settings, some = TrainRetriever(category="dresses"), items()
    captioner, retriever = models()
    module = RetrieverTraining(
        retriever,
        captioner,
        VOCABULARY,
        some,
        some,
        recorded={},
        asker=BestItem(),
        turns=settings.turns,
        loss=turn_loss(settings.loss, settings.margin),
        negatives=settings.negatives,
        beams=settings.beam,
        learning_rate=settings.learning_rate,
        schedule=settings.schedule,
        seed=settings.seed,
    )
    module.on_train_epoch_start()
    optimizer = module.configure_optimizers()

    def step() -> None:
        module.training_step([torch.randperm(GALLERY)[: settings.batch_size]], 0).backward()
        optimizer.step()
        optimizer.zero_grad()

    return f"retriever, training step of {settings.batch_size} dialogs × {settings.turns} turns, greedy user", step


def dialogs_batch() -> tuple[str, Callable[[], None]]:
    some, (captioner, retriever) = items(), models()
    with torch.no_grad():
        gallery = Gallery(some, retriever.eval().embed_images(some.features_ND))
    user = CaptionerUser(captioner, some, VOCABULARY, VOCABULARY, beams=5)

    @torch.no_grad()
    def batch() -> None:
        rollout(retriever, BestItem(), user, gallery, torch.arange(128), torch.arange(128, 256), 5)

    return f"dialogs, evaluation batch of 128 × 5 turns, beam 5, gallery {GALLERY:,}", batch


def attributes_step() -> tuple[str, Callable[[], None]]:
    settings = TrainAttributes()
    encoder = create_encoder(settings.encoder)
    model = AttributePredictor(encoder, encoder_size(encoder), ATTRIBUTES)
    labels_NA = np.random.default_rng(0).integers(0, 2, (32, ATTRIBUTES), dtype=np.int8)
    loss = AttributeLoss(settings.imbalance, labels_NA)
    module = AttributeTraining(model, loss, [], *encoder_mean_std(encoder), False, settings.learning_rate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    images = torch.randint(0, 256, (32, 3, settings.image_size, settings.image_size), dtype=torch.uint8)

    def step() -> None:
        module.training_step([images, torch.from_numpy(labels_NA)], 0).backward()
        optimizer.step()
        optimizer.zero_grad()

    return f"{settings.encoder} with {ATTRIBUTES} attributes, training step of 32 pictures of {settings.image_size} px", step


def features_batch() -> tuple[str, Callable[[], None]]:
    settings = TrainAttributes()
    encoder = create_encoder(settings.encoder).eval().to(memory_format=torch.channels_last)
    images = torch.randn(32, 3, settings.image_size, settings.image_size).to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def batch() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            encoder(images)

    return f"{settings.encoder}, features of 32 pictures of {settings.image_size} px, bfloat16", batch


STAGES = {
    "captioner": captioner_step,
    "retriever": retriever_step,
    "dialogs": dialogs_batch,
    "attributes": attributes_step,
    "features": features_batch,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    name, once = STAGES[arguments.stage]()
    seconds = []
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{name}: {' and '.join(f'{s:.1f}' for s in seconds)} s, peak {peak:.1f} GB, {arguments.threads} thread(s)")

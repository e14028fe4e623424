"""Stages of `speed.py`: our call, the reference call, a check for equal results, and the needs of the
call."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import counts
import numpy as np
import plain
import torch
from counts import Needs, Sizes
from efficientnet_pytorch import EfficientNet
from torch import Tensor, nn

from fashioniq.askers.best_item import BestItem
from fashioniq.config import TrainAttributes, TrainCaptioner, TrainRetriever
from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import END, PAD, SPECIAL, START, Vocabulary
from fashioniq.encoders.timm import Encoding
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message
from fashioniq.loop.rollout import Dialogs, System, rollout
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import SMALL, CaptionerConfig, RetrieverConfig
from fashioniq.models.encoder import (
    convert_efficientnet_pytorch,
    create_encoder,
    encoder_mean_std,
    encoder_size,
    normalise,
)
from fashioniq.models.retriever import DialogRetriever
from fashioniq.training.attributes import AttributeTraining
from fashioniq.training.captioner import CaptionerTraining
from fashioniq.training.dialog_sources import random_others
from fashioniq.training.losses import turn_loss
from fashioniq.training.retriever import RetrieverTraining
from fashioniq.training.users import captioner_dialogs
from fashioniq.users.captioner import CaptionerUser, Simulator

# shares of training captions of 1, 2, … ≥ 8 words
LENGTHS = (0.007, 0.085, 0.119, 0.137, 0.2, 0.184, 0.129, 0.139)
ENDS = 0.15  # share of positions where the untrained captioner ends; gives captions of about six words
ROUNDING = 4e-6  # float32 rounding error of a squared distance, relative to the squared norms of both vectors
LEAST_COSINE = 0.95  # minimum cosine of bfloat16 and float32 features; b7 with random weights has 0.988
CHECKED = 512  # queries whose ranks are checked in float64


class Different(Exception):
    """Our results and those of the reference implementation differ."""


class Setting(NamedTuple):
    """Settings of a stage; batch None is the default of the stage."""

    sizes: Sizes = counts.PAPER
    device: torch.device = torch.device("cpu")
    batch: int | None = None
    bfloat16: bool = False  # autocast of training steps, as Lightning's bf16-mixed
    cpu_time: bool = False  # CPU seconds of the process instead of elapsed ones

    @property
    def small(self) -> bool:
        return self.sizes == counts.SMALL

    def dialogs(self, usual: int) -> int:
        return self.batch or (6 if self.small else usual)

    def autocast(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)


class Stage(NamedTuple):
    """A benchmark stage. `check` raises Different or returns its findings, and must run before `needs`.

    Without `plain`, only our implementation is timed. If the reference is too slow, it does the share
    `plain_part` of the work, and its time is divided by that.
    """

    size: str
    count: int
    unit: str
    ours: Callable[[], Any]
    plain: Callable[[], Any] | None
    check: Callable[[], dict[str, Any]]
    needs: Callable[[], Needs]
    dtype: torch.dtype = torch.float32
    plain_part: float = 1.0


def random_items(count: int, setting: Setting) -> Items:
    sizes = setting.sizes
    features_ND = torch.randn(count, sizes.features).relu()  # like the output of a network's last activation
    return Items(
        [str(n) for n in range(count)], features_ND, torch.randint(1, sizes.attributes + 1, (count, 8))
    ).to(setting.device)


def vocabulary(sizes: Sizes) -> Vocabulary:
    return Vocabulary([f"word{number}" for number in range(sizes.words - len(SPECIAL))])


def random_captions(count: int, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """Random words with start and end, B×(L+2), and caption lengths distributed as in Fashion IQ."""
    length_B = 1 + torch.multinomial(torch.tensor(LENGTHS), count, replacement=True)
    words_BL = torch.randint(len(SPECIAL), sizes.words, (count, sizes.max_words + 2))
    words_BL[:, 0] = START
    words_BL[torch.arange(count), length_B + 1] = END
    return words_BL.masked_fill(torch.arange(words_BL.shape[1]) > length_B.unsqueeze(1) + 1, PAD), length_B


def create_models(
    setting: Setting, attention: str = "both-ways", turns: int | None = None
) -> tuple[Captioner, DialogRetriever]:
    sizes = setting.sizes
    width, heads, hidden, layers = sizes.captioner
    of_data = {"vocabulary": sizes.words, "features": sizes.features, "attributes": sizes.attributes}
    config = CaptionerConfig(
        width=width, heads=heads, hidden=hidden, layers=layers, max_words=sizes.max_words
    )
    captioner = Captioner(config, **of_data)
    captioner = captioner.eval().to(setting.device)
    calibrate_captions(captioner, setting)
    width, heads, hidden, layers = sizes.retriever
    retriever = DialogRetriever(
        RetrieverConfig(width=width, heads=heads, hidden=hidden, layers=layers, attention=attention),
        **of_data,
        max_words=sizes.max_words,
        max_turns=turns or sizes.turns,
    )
    nn.init.normal_(retriever.query.weight, std=width**-0.5)  # queries as long as a trained retriever's
    return captioner, retriever.to(setting.device)


@torch.no_grad()
def calibrate_captions(captioner: Captioner, setting: Setting) -> None:
    """Adjust an untrained captioner so that captions differ and end.

    The last layer norms are centered over some inputs, and the bias of the end token is set by ENDS.
    """
    items = random_items(2 * 64, setting)
    reference, target = (items.inputs(part) for part in (slice(64), slice(64, None)))
    words_BL = random_captions(64, setting.sizes)[0][:, :-1].to(setting.device)
    for norm in (captioner.encoder.norm, captioner.decoder.norm):
        seen: list[Tensor] = []
        hook = norm.register_forward_hook(
            lambda module, inputs, output, seen=seen: seen.append(output.flatten(0, 1))
        )
        captioner(reference, target, words_BL)
        hook.remove()
        std_D, mean_D = torch.std_mean(seen[0], 0)
        norm.weight /= std_D
        norm.bias.sub_(mean_D).div_(std_D)
    scores_NV = captioner(reference, target, words_BL)[:, 1:].flatten(0, 1)
    best_N = scores_NV[:, len(SPECIAL) :].amax(1)
    captioner.out.bias[END] += (best_N - scores_NV[:, END]).quantile(ENDS)


def simulation(setting: Setting, beams: int, attention: str) -> Stage:
    """Dialogs of an evaluation batch with ranks; the reference is timed with both-ways attention.

    The gallery is embedded beforehand, as once per evaluation.
    """
    sizes, dialogs = setting.sizes, setting.dialogs(128)
    items, (captioner, retriever) = random_items(sizes.test, setting), create_models(setting, attention)
    both_ways = copy.deepcopy(retriever.eval())
    both_ways.turn_causal = False
    gallery = items, plain.embed_gallery(retriever, items, dialogs)
    exact, ours = (
        simulate_ours(setting, Gallery(*gallery), speaker, retriever, beams, dialogs, sizes.turns)
        for speaker in (captioner, captioner)
    )
    target_B, first_B = targets_and_firsts(dialogs, items)
    words = [0.0, 0.0]

    def say(reference: ItemInputs, target: ItemInputs) -> Tensor:
        return (
            plain.greedy(captioner, reference, target)
            if beams == 1
            else plain.beam(captioner, reference, target, beams)
        )

    @torch.no_grad()
    def plainly(model: DialogRetriever = both_ways) -> plain.Dialogs:
        return plain.simulate(model, say, gallery, target_B, first_B, sizes.turns)

    @torch.no_grad()
    def check() -> dict[str, Any]:
        if not torch.allclose(retriever.embed_images(items.features_ND), gallery[1], atol=1e-5):
            raise Different("the vectors of the products are not the same")
        found = exact()
        words[:] = mean_words(said(found))
        return {
            **same_dialogs(found, plainly(retriever), gallery[1]),
            "words": round(words[0], 2),
        }

    return Stage(
        f"{dialogs} dialogs × {sizes.turns} turns, {attention}, {'greedy' if beams == 1 else f'beam {beams}'}, "
        f"gallery {sizes.test:,}",
        dialogs,
        "dialogs",
        ours,
        plainly,
        check,
        lambda: counts.simulation(
            sizes,
            (captioner, retriever),
            dialogs,
            sizes.test,
            sizes.turns,
            beams,
            words,
            attention == "turn-causal",
        ),
    )


def simulate_ours(
    setting: Setting,
    gallery: Gallery,
    captioner: Captioner,
    retriever: DialogRetriever,
    beams: int,
    dialogs: int,
    turns: int,
) -> Callable[[], Dialogs]:
    words = vocabulary(setting.sizes)
    user = CaptionerUser(captioner, gallery.items, words, words, beams)
    target_B, first_B = targets_and_firsts(dialogs, gallery.items)
    system, first = System(retriever, BestItem(), gallery), Message(item_B=first_B)
    return torch.no_grad()(lambda: rollout(system, user, target_B, first, turns))


def targets_and_firsts(dialogs: int, items: Items) -> tuple[Tensor, Tensor]:
    target_B = torch.arange(dialogs, device=items.features_ND.device) % len(items)
    return target_B, (target_B + len(items) // 2) % len(items)


def said(dialogs: Dialogs) -> Tensor:
    """Word ids of the replies, B×T×L."""
    return torch.stack([turn.words_BL for turn in dialogs.state.turns], 1)


def mean_words(words_BTL: Tensor) -> tuple[float, float]:
    """Return the mean length of captions, and the mean number of decoding steps, including the end token."""
    length_BT = (words_BTL != PAD).sum(-1)
    return float(length_BT.float().mean()), float(
        (length_BT + 1).clamp(max=words_BTL.shape[-1]).float().mean()
    )


def same_dialogs(ours: Dialogs, theirs: plain.Dialogs, vectors_ND: Tensor) -> dict[str, Any]:
    """Check that dialogs have the same words and items; 1 % may differ because of float32 ties."""
    same_B = (said(ours) == theirs.words_BTL).flatten(1).all(1) & (ours.shown_BT == theirs.shown_BT).all(1)
    agreement = float(same_B.float().mean())
    if agreement < 0.99:
        raise Different(f"only {agreement:.1%} of the dialogs are the same")
    if not torch.allclose(ours.query_BTD[same_B], theirs.query_BTD[same_B], atol=1e-4):
        raise Different("the queries are not the same")
    # factor 4 below: squared distances of unit vectors
    apart_N = (ours.query_BTD - theirs.query_BTD)[same_B].norm(dim=-1).flatten()
    target_N = ours.target_B[same_B].repeat_interleave(ours.shown_BT.shape[1])
    rank_N, their_rank_N = (rank_BT[same_B].flatten() for rank_BT in (ours.rank_BT, theirs.rank_BT))
    same_ranks(ours.query_BTD[same_B].flatten(0, 1), vectors_ND, target_N, rank_N, their_rank_N, 4 * apart_N)
    return {"agreement": round(agreement, 4)}


def same_ranks(
    query_BD: Tensor,
    vectors_ND: Tensor,
    target_B: Tensor,
    ours_B: Tensor,
    theirs_B: Tensor,
    more_B: Tensor | None = None,
) -> None:
    """Check that our ranks equal those of float64, and that theirs are within float32 rounding.

    `more_B` is the additional tolerance for differences of the queries.
    """
    query_BD, vectors_ND = query_BD.double(), vectors_ND.double()
    length_B1, length_N = query_BD.square().sum(1, keepdim=True), vectors_ND.square().sum(1)
    distance_BN = length_B1 - 2 * query_BD @ vectors_ND.T + length_N
    margin_BN = distance_BN - distance_BN.gather(1, target_B.unsqueeze(1))
    if not torch.equal(ours_B, (margin_BN < 0).sum(1)):
        raise Different("our ranks are not exact")
    slack_B1 = ROUNDING * (length_B1 + length_N.max()) + (
        0 if more_B is None else more_B.to(margin_BN).unsqueeze(1)
    )
    least_B, most_B = (margin_BN < -slack_B1).sum(1), (margin_BN <= slack_B1).sum(1) - 1  # the target itself
    if not ((least_B <= theirs_B) & (theirs_B <= most_B)).all():
        raise Different("the plain ranks are not within float32's rounding")


class RecordingBestItem(BestItem):
    """BestItem that records the first items of a training step."""

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        self.first_B = state.turns[0].offer.item_B
        return super().offer(state, gallery)


def retriever_step(setting: Setting, attention: str) -> Stage:
    """Training step of a retriever; the reference always uses both-ways attention."""
    sizes, dialogs = setting.sizes, setting.dialogs(32)
    causal = attention == "turn-causal"
    items, (captioner, retriever) = random_items(sizes.train, setting), create_models(setting, attention)
    both_ways, asker, row_B = (
        copy.deepcopy(retriever),
        RecordingBestItem(),
        torch.randperm(sizes.train)[:dialogs].to(setting.device),
    )
    both_ways.turn_causal = False
    known = TrainRetriever(category="dresses")
    both = {"train": items, "val": items}
    words = vocabulary(sizes)

    def training(speaker: Captioner) -> RetrieverTraining:
        simulator = Simulator(speaker, words)
        module = RetrieverTraining(
            retriever,
            captioner_dialogs(simulator, words, both, turns=sizes.turns, seed=0),
            asker,
            loss=turn_loss("triplet"),
            negatives="batch",
            learning_rate=known.learning_rate,
            schedule="constant",
        ).to(setting.device)
        module.on_train_epoch_start()
        return module

    exact, module = training(captioner), training(captioner)

    def plain_loss(model: DialogRetriever, first_B: Tensor) -> tuple[Tensor, plain.Dialogs]:
        vectors_ND = plain.embed_gallery(model, items, len(row_B))
        found = plain.simulate(
            model,
            lambda reference, target: plain.greedy(captioner, reference, target),
            (items, vectors_ND),
            row_B,
            first_B,
            sizes.turns,
        )
        return plain.triplet_loss(found.query_BTD, plain.embed(model, items.features_ND[row_B])), found

    length = [0.0, 0.0]

    def check() -> dict[str, Any]:
        ours = exact.training_step([row_B], 0)
        gradient = gradient_of(ours, retriever)
        theirs, found = plain_loss(retriever, asker.first_B)
        length[:] = mean_words(found.words_BTL)
        return {
            **same_gradients(ours, gradient, theirs, gradient_of(theirs, retriever)),
            "words": round(length[0], 2),
        }

    plain_optimizer = torch.optim.Adam(both_ways.parameters(), lr=1e-6)
    return Stage(
        f"{dialogs} dialogs × {sizes.turns} turns, {attention}, gallery {sizes.train:,}",
        dialogs,
        "dialogs",
        step_of(lambda: module.training_step([row_B], 0), optimizer_of(module), setting),
        step_of(lambda: plain_loss(both_ways, random_others(row_B, sizes.train))[0], plain_optimizer),
        check,
        lambda: counts.retriever_step(sizes, (captioner, retriever), dialogs, length, causal),
        torch.bfloat16 if setting.bfloat16 else torch.float32,
    )


def captioner_step(setting: Setting, of_a_pair: int) -> Stage:
    """Training step of a captioner, with one or two captions per pair; the reference encodes pairs per
    caption.

    Dropout is off in the check, and on in the timed steps.
    """
    sizes, captions, known = (
        setting.sizes,
        setting.dialogs(64),
        TrainCaptioner(category="dresses").for_pairs(SMALL, SMALL),
    )
    items, captioner = random_items(sizes.train, setting), create_models(setting)[0]
    module = CaptionerTraining(
        captioner,
        train=items,
        val=items,
        vocabulary=vocabulary(sizes),
        val_pairs=[],
        noam_factor=known.noam_factor,
        warmup=known.warmup,
        beam=known.beam,
    ).to(setting.device)
    pair_P = [torch.randint(sizes.train, (captions // of_a_pair,), device=setting.device) for _ in range(2)]
    words_BL, length_B = random_captions(captions, sizes)
    words_BL, words = words_BL.to(setting.device), float(length_B.float().mean())
    batch = [*pair_P, words_BL.unflatten(0, (-1, of_a_pair))]
    of_captions = [some_P.repeat_interleave(of_a_pair) for some_P in pair_P]
    reference, target = (items.inputs(some_B) for some_B in of_captions)

    def plain_loss() -> Tensor:
        return plain.caption_loss(captioner, reference, target, words_BL)

    def check() -> dict[str, Any]:
        captioner.eval()
        ours, theirs = module.training_step(batch, 0), plain_loss()
        facts = same_gradients(ours, gradient_of(ours, captioner), theirs, gradient_of(theirs, captioner))
        captioner.train()
        return facts

    plain_optimizer = torch.optim.Adam(captioner.parameters(), lr=1e-6, betas=(0.9, 0.98), eps=1e-9)
    return Stage(
        f"{captions} captions of {words:.1f} words, {of_a_pair} of a pair",
        captions,
        "captions",
        step_of(lambda: module.training_step(batch, 0), optimizer_of(module), setting),
        step_of(plain_loss, plain_optimizer),
        check,
        lambda: counts.captioner_step(sizes, captioner, captions, words, of_a_pair),
        torch.bfloat16 if setting.bfloat16 else torch.float32,
    )


def step_of(
    loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer, setting: Setting | None = None
) -> Callable[[], None]:
    def step() -> None:
        with (setting or Setting()).autocast():
            made = loss()
        made.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def optimizer_of(module: Any) -> torch.optim.Optimizer:
    """Return the optimizer of a module with a tiny learning rate, so that repeats do the same work."""
    made = module.configure_optimizers()
    optimizer = made["optimizer"] if isinstance(made, dict) else made
    for group in optimizer.param_groups:
        group["lr"] = 1e-6
    return optimizer


def gradient_of(loss: Tensor, model: nn.Module) -> Tensor:
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    parts = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


def same_gradients(ours: Tensor, gradient: Tensor, theirs: Tensor, their_gradient: Tensor) -> dict[str, Any]:
    loss_differs = abs(ours.item() - theirs.item()) / abs(theirs.item())
    gradient_differs = float((gradient - their_gradient).norm() / their_gradient.norm())
    if loss_differs > 1e-4 or gradient_differs > 1e-3:
        raise Different(
            f"the loss differs by {loss_differs:.1e} and the gradient by {gradient_differs:.1e} of their size"
        )
    return {
        "loss_differs": float(f"{loss_differs:.1e}"),
        "gradient_differs": float(f"{gradient_differs:.1e}"),
    }


def features(setting: Setting) -> Stage:
    """Feature extraction from decoded squares. Decoding, 5 % of the time on a CPU, is not included."""
    sizes, images = setting.sizes, setting.batch or (4 if setting.small else 16)
    rough = torch.randint(0, 256, (images, 3, 8, 8), dtype=torch.float32)
    squares_BCHW = (
        nn.functional.interpolate(rough, (sizes.pixels, sizes.pixels), mode="bicubic")
        .clamp(0, 255)
        .to(torch.uint8)
    )
    encoder, theirs = twin_encoders(setting, squares_BCHW)
    predictor = AttributePredictor(encoder, encoder_size(encoder), sizes.attributes)
    head = copy.deepcopy(predictor.head).to(setting.device)
    prepare, squares = normalise(*encoder_mean_std(encoder)), list(squares_BCHW.numpy())
    twin = copy.deepcopy(predictor)
    exact = Encoding(twin, twin.encoder, setting.device, bfloat16=False)
    encode = Encoding(predictor, encoder, setting.device, bfloat16=True)

    @torch.no_grad()
    def plainly() -> tuple[Tensor, Tensor]:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            features_BD = theirs.extract_features(prepare(squares_BCHW.to(setting.device))).mean((2, 3))
        return features_BD.cpu(), top_attributes(head(features_BD)).cpu()

    def check() -> dict[str, Any]:
        (fast_BD, fast_BA), (theirs_BD, theirs_BA) = encode(squares), plainly()
        fast, in_float32 = (least_cosine(some_BD, theirs_BD) for some_BD in (fast_BD, exact(squares)[0]))
        if not (in_float32 >= 0.9999 and fast >= LEAST_COSINE):
            raise Different(
                f"the least cosine of the features is {in_float32:.5f} in float32 and {fast:.5f} on "
                "the fast path"
            )
        shared = np.mean(
            [len(set(a) & set(b)) / len(b) for a, b in zip(fast_BA.tolist(), theirs_BA.tolist(), strict=True)]
        )
        return {"least_cosine": round(fast, 5), "same_attributes": round(float(shared), 3)}

    def needs() -> Needs:
        with torch.device("meta"):
            return counts.convolutions(
                create_encoder(f"efficientnet-{sizes.encoder}"), images, sizes.pixels, bytes_of_number=2
            )

    size = f"{images} pictures of {sizes.pixels} px, {sizes.encoder}"
    return Stage(size, images, "images", lambda: encode(squares), plainly, check, needs, torch.bfloat16)


def least_cosine(ours_BD: Tensor, theirs_BD: Tensor) -> float:
    return float(nn.functional.cosine_similarity(ours_BD.cpu().float(), theirs_BD.cpu()).min())


def twin_encoders(setting: Setting, squares_BCHW: Tensor) -> tuple[nn.Module, EfficientNet]:
    """Create timm's and efficientnet_pytorch's networks with the same random weights and batch statistics."""
    name = f"efficientnet-{setting.sizes.encoder}"
    theirs = EfficientNet.from_name(name, image_size=None).eval().to(setting.device)
    encoder = create_encoder(name)
    for norm in (module for module in theirs.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.train().momentum = 1.0  # use the statistics of the last batch
    with torch.no_grad():
        theirs.extract_features(normalise(*encoder_mean_std(encoder))(squares_BCHW.to(setting.device)))
    weights = {name: tensor.cpu() for name, tensor in theirs.state_dict().items()}
    encoder.load_state_dict(convert_efficientnet_pytorch(weights, encoder))
    return encoder, theirs.eval()


def ranks(setting: Setting, plain_ranks: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Stage:
    """Ranks of N targets among N feature vectors; the reference ranks CHECKED of them."""
    count, width = setting.sizes.targets, setting.sizes.features
    items = Items.without_attributes([str(n) for n in range(count)], torch.empty(0, device=setting.device))
    vectors_ND = nn.functional.normalize(torch.randn(count, width, device=setting.device), dim=1)
    query_ND = nn.functional.normalize(vectors_ND + 10 * width**-0.5 * torch.randn_like(vectors_ND), dim=1)
    gallery, target_N = Gallery(items, vectors_ND), torch.arange(count, device=setting.device)

    def ours() -> Tensor:
        return gallery.rank(query_ND, target_N)

    some_S = torch.randperm(count)[:CHECKED].to(setting.device)
    asked_SD, wanted_S = query_ND[some_S], target_N[some_S]

    def plainly() -> Tensor:
        return plain_ranks(asked_SD, vectors_ND, wanted_S)

    def check() -> dict[str, Any]:
        ours_S, theirs_S = ours()[some_S], plainly()
        same_ranks(asked_SD, vectors_ND, wanted_S, ours_S, theirs_S)
        return {"agreement": round(float((ours_S == theirs_S).float().mean()), 4)}

    needs, size = counts.searching(count, count, width), f"{count:,} targets among {count:,} × {width}"
    return Stage(size, count, "targets", ours, plainly, check, lambda: needs, plain_part=len(some_S) / count)


def attributes_step(setting: Setting) -> Stage:
    """Training step of the attribute predictor, without a reference, to measure its memory."""
    sizes, images, known = setting.sizes, setting.batch or (2 if setting.small else 32), TrainAttributes()
    encoder = create_encoder(f"efficientnet-{sizes.encoder}")
    labels_NA = np.random.default_rng(0).integers(0, 2, (images, sizes.attributes), dtype=np.int8)
    model, mean_std = (
        AttributePredictor(encoder, encoder_size(encoder), sizes.attributes),
        encoder_mean_std(encoder),
    )
    module = AttributeTraining(
        model, types=[], mean_std=mean_std, head_only=False, learning_rate=known.learning_rate
    ).to(setting.device)
    squares_BCHW = torch.randint(0, 256, (images, 3, sizes.pixels, sizes.pixels), dtype=torch.uint8)
    batch = [squares_BCHW.to(setting.device), torch.from_numpy(labels_NA).to(setting.device)]
    step = step_of(
        lambda: module.training_step(batch, 0), torch.optim.AdamW(model.parameters(), lr=1e-6), setting
    )

    def needs() -> Needs:
        with torch.device("meta"):
            return counts.convolutions(
                create_encoder(f"efficientnet-{sizes.encoder}"), images, sizes.pixels, counts.FLOAT
            ).times(3)

    size = f"{images} pictures of {sizes.pixels} px, {sizes.encoder} with {sizes.attributes} attributes"
    return Stage(
        size, images, "images", step, None, dict, needs, torch.bfloat16 if setting.bfloat16 else torch.float32
    )


def growth(setting: Setting) -> Iterator[tuple[str, int, Stage]]:
    """Yield the variable, its value and the stage of each growth measurement, without a reference."""
    sizes, small = setting.sizes, setting.small
    for count in (100, 300) if small else (1_000, 10_000, 100_000, 1_000_000):
        yield "gallery", count, searching_stage(setting, count)
    for dialogs in (2, 4) if small else (2, 8, 32, 128, 512):
        yield "dialogs", dialogs, dialog_stage(setting, "both-ways", dialogs, sizes.turns)
    for attention in ("both-ways", "turn-causal"):
        for turns in (1, 2) if small else (1, 2, 5, 10, 20):
            yield f"turns, {attention}", turns, dialog_stage(setting, attention, 4 if small else 32, turns)


def searching_stage(setting: Setting, count: int) -> Stage:
    """Ranks and nearest items of 128 queries in the retriever's space."""
    width, queries = setting.sizes.retriever[0], 128
    items = Items.without_attributes([], torch.empty(0, device=setting.device))
    gallery = Gallery(items, nn.functional.normalize(torch.randn(count, width, device=setting.device), dim=1))
    query_BD, target_B = (
        torch.randn(queries, width, device=setting.device),
        torch.arange(queries, device=setting.device) % count,
    )

    def ours() -> None:
        gallery.rank(query_BD, target_B)
        gallery.top(query_BD, 1)

    needs = counts.searching(queries, count, width)
    return Stage(
        f"{queries} ranks and nearest items among {count:,} × {width}",
        queries,
        "queries",
        ours,
        None,
        dict,
        lambda: needs.times(2),
    )


def dialog_stage(setting: Setting, attention: str, dialogs: int, turns: int) -> Stage:
    """Dialogs with greedy decoding and ranks."""
    items, (captioner, retriever) = (
        random_items(setting.sizes.test, setting),
        create_models(setting, attention, turns),
    )
    with torch.no_grad():
        gallery = Gallery(items, retriever.eval().embed_images(items.features_ND))
    ours, words = simulate_ours(setting, gallery, captioner, retriever, 1, dialogs, turns), [0.0, 0.0]

    def check() -> dict[str, Any]:
        words[:] = mean_words(said(ours()))
        return {"words": round(words[0], 2)}

    def needs() -> Needs:
        causal = attention == "turn-causal"
        return counts.simulation(
            setting.sizes, (captioner, retriever), dialogs, setting.sizes.test, turns, 1, words, causal
        )

    return Stage(
        f"{dialogs} dialogs × {turns} turns, greedy, {attention}",
        dialogs,
        "dialogs",
        ours,
        None,
        check,
        needs,
    )


STAGES: dict[str, Callable[[Setting], Stage]] = {
    "greedy": lambda setting: simulation(setting, 1, "both-ways"),
    "greedy-causal": lambda setting: simulation(setting, 1, "turn-causal"),
    "beam": lambda setting: simulation(setting, 5, "both-ways"),
    "beam-causal": lambda setting: simulation(setting, 5, "turn-causal"),
    "retriever": lambda setting: retriever_step(setting, "both-ways"),
    "retriever-causal": lambda setting: retriever_step(setting, "turn-causal"),
    "captioner": lambda setting: captioner_step(setting, 2),
    "captioner-single": lambda setting: captioner_step(setting, 1),
    "features": features,
    "ranks": lambda setting: ranks(setting, plain.ranks),
    "ranks-products": lambda setting: ranks(setting, plain.ranks_by_products),
    "attributes": attributes_step,
}
GROWTH = "growth"
BATCHED = tuple(name for name in STAGES if not name.startswith("ranks"))

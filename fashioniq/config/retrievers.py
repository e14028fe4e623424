"""Settings of the trainings of retrievers: in dialogs, of single turns, and of questions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.shared import CATALOGS, CATEGORY, DATA, Speaking, WithFeatures, option, refuse, section
from fashioniq.config.training import (
    SCORES_WITHOUT_ATTRS,
    OfWords,
    Training,
    WithScores,
    run_folder,
)
from fashioniq.models.configs import (
    COMPOSITIONS,
    FITTED,
    ComposerConfig,
    DialogEncoderConfig,
    RetrieverConfig,
)

Loss = Literal["triplet", "triplet-unsquared", "ranking", "cross-entropy"]

Negatives = Literal["batch", "gallery"]

Schedule = Literal["constant", "cosine"]


@dataclass(kw_only=True)
class RetrieverTrainingSettings(Training, WithFeatures):
    """Options of all trainings of a retriever."""

    attrs: bool = option(
        False, "use the attributes of the products shown as input, independently of the captioner"
    )
    init_from: Path | None = option(
        None,
        "run whose weights training starts from, such as to continue with other users (default: random weights)",
        reads="retriever",
    )
    word_vectors: Path | None = option(
        None,
        "file of word vectors, as text (GloVe, word2vec, fastText) or .bin (word2vec, fastText), or the word catalog: "
        "word2vec first learns them from the texts of the catalog; kept frozen (default: learned embeddings)",
        reads="file or catalog",
        research=True,
    )
    loss: Loss = option(
        "triplet",
        "loss: triplet on squared distances (Guo 2018), triplet on distances (released code; with --model.embedding "
        "standardized), pairwise ranking on cosines (Kiros 2014, for composers), or cross-entropy",
        research=True,
    )
    margin: float | None = option(
        None, "margin (default: triplet 0.1, triplet-unsquared 10, ranking 0.2)", least=0, research=True
    )
    temperature: float | None = option(
        None,
        "temperature of cross-entropy (default: 0.05, of --stage policy 1; with --model.kind linear or residual 0.4)",
        least=1e-4,
        research=True,
    )
    negatives: Negatives = option(
        "batch",
        "negatives: the other targets of the batch, or all other products of the training split",
        research=True,
    )
    learning_rate: float = option(
        1e-3, "Adam learning rate; the maximum of the schedule", least=0, research=True
    )
    schedule: Schedule = option(
        "constant",
        "learning rate schedule: constant, or linear warmup over a tenth of the steps and cosine decay to zero",
        research=True,
    )
    batch_size: int = 128

    def validate(self) -> None:
        refuse(
            (
                self.loss == "cross-entropy" and self.margin is not None,
                f"--margin is {self.margin}, but cross-entropy has no margin; give --temperature instead",
            ),
            (
                self.loss != "cross-entropy" and self.temperature is not None,
                f"--temperature is {self.temperature}, but {self.loss} has no temperature; "
                "give --margin instead",
            ),
        )


@dataclass(kw_only=True)
class TrainRetriever(RetrieverTrainingSettings, Speaking):
    """Train a dialog retriever in dialogs with several users: captioners, attribute labels, recorded captions.

    The defaults are the recommended recipe; configs/paper/retriever.yaml has the paper's.
    """

    run: Path | None = run_folder("runs/retriever-CATEGORY", attrs=True)
    model: RetrieverConfig = section(RetrieverConfig, "sizes of the retriever")
    captioner: Path | None = option(
        None,
        "run of train-captioner that simulates the user (default: runs/captioner-CATEGORY; with --attrs "
        "runs/captioner-CATEGORY-attrs)",
        reads="captioner",
    )
    users: list[str] = option(
        [],
        "users of the training dialogs, one per step in turn: captioner (the run of --captioner), other "
        "runs of train-captioner, differences (of attribute labels), recorded (captions of pairs, as dialogs "
        "of one turn), a folder of Multiturn FashionIQ (people's sessions of train), endpoint:NAME or local:NAME for a "
        "language model that reads descriptions and labels, or users of your own (default: captioner differences "
        "recorded, as far as the catalog has labels and captions)",
        part="users",
    )
    stage: Literal["supervised", "policy"] = option(
        "supervised",
        "supervised: the target against other products; policy: improve the run of --init-from by looking ahead, "
        "with a simulated user (Guo et al. 2018; see configs/policy.yaml)",
        research=True,
    )
    similar_first: float = option(
        0.5,
        "share of the simulated dialogs that begin with one of the 100 products most similar to the target, as "
        "people's do; the others begin with any product (paper: 0)",
        least=0,
        below=1,
        research=True,
    )
    exclude_shown: bool = option(
        True,
        "never show a product twice in a simulated dialog; eval-dialogs then does the same (default: on)",
        research=True,
    )
    gallery_every: Literal["epoch", "step"] = option(
        "epoch",
        "how often the products are embedded again for the search of those to show: every epoch, or every step "
        "(released code)",
        research=True,
    )
    halfway: bool = option(
        False,
        "save weights halfway between ridge regression and the end of the training (--model.kind linear or residual)",
        research=True,
    )
    loss: Loss = "cross-entropy"
    negatives: Negatives = "gallery"
    schedule: Schedule = "cosine"
    batch_size: int = 64
    epochs: int = option(
        20,
        "number of epochs; the cosine schedule ends with the last one; 0: ridge regression on people's captions alone "
        "(--model.kind linear), whose width is that of the features",
        least=0,
    )

    def validate(self) -> None:
        super().validate()
        refuse(
            (
                self.epochs == 0 and (self.model.kind != "linear" or self.init_from or self.attrs),
                "--epochs 0 is ridge regression on captions: it needs --model.kind linear, without --init-from and "
                "--attrs",
            ),
            (
                self.halfway and (self.model.kind not in FITTED or self.init_from or self.epochs == 0),
                "--halfway needs a training that starts from ridge regression, --model.kind linear or residual without "
                "--init-from; leave --halfway out, or give such a training",
            ),
            (
                self.word_vectors and self.model.kind == "linear",
                "--word-vectors needs a model with word embeddings, which --model.kind linear does not have; give "
                "--model.kind transformer or rnn, or leave --word-vectors out",
            ),
        )


@dataclass(kw_only=True)
class TrainComposer(WithScores, RetrieverTrainingSettings):
    """Train a composer, a retriever for a single turn, on recorded captions (Fashion IQ, appendix B)."""

    run: Path | None = run_folder("runs/composer-COMPOSITION-CATEGORY", attrs=True)
    model: ComposerConfig = section(ComposerConfig, "sizes of the composer")
    margins: list[float] = option(
        [],
        "margins to choose from, as in the paper: each has a run of its own, RUN-margin-X, and the one with the best "
        "R@10 on val is named at the end",
        least=0,
        research=True,
    )

    def validate(self) -> None:
        super().validate()
        composition = self.model.composition
        rule = "uses no attributes; leave --attrs out" if self.attrs else "uses attributes; give --attrs"
        refuse(
            (
                self.attrs != ("attributes" in COMPOSITIONS[composition]),
                f"composition {composition} {rule}",
            ),
            (self.predictor and not self.attrs, SCORES_WITHOUT_ATTRS),
            (
                self.margins and (self.margin is not None or self.loss == "cross-entropy"),
                "--margins are for a loss with a margin, and replace --margin; leave one of them out",
            ),
            (
                self.word_vectors and "caption" not in COMPOSITIONS[composition],
                f"composition {composition} reads no captions; leave --word-vectors out, or give another "
                "--model.composition",
            ),
        )


@dataclass(kw_only=True)
class TrainDialogEncoder(OfWords, Training):
    """Train the text encoder that retrieves images from question dialogs (ChatIR's F); image features are
    frozen.
    """

    data: Path = option(CATALOGS, DATA)
    run: Path | None = run_folder("runs/dialog-encoder-CATEGORY; runs/dialog-encoder without --category")
    category: str | None = option(None, CATEGORY + "; sets the default files in DATA")
    dialogues: Path | None = option(
        None,
        "training dialogs in the format of ChatIR or VisDial (default: DATA/dialogues/CATEGORY.train.json)",
    )
    val_dialogues: Path | None = option(
        None, "validation dialogs, which select the best epoch (default: DATA/dialogues/CATEGORY.val.json)"
    )
    features: Path | None = option(
        None, "feature store of the images of both files (default: DATA/features/CATEGORY)"
    )
    encoder: str = option(
        "transformer",
        "text encoder: transformer (trained from scratch), or a model of transformers such as CLIP by folder or "
        "Hugging Face name (fine-tuned; the feature store must have its vectors)",
    )
    model: DialogEncoderConfig = section(DialogEncoderConfig, "sizes of the transformer")
    loss: Literal["recall", "contrastive", "both"] = option(
        "both",
        "loss: recall is a smooth 1 − R@K, K = 1, 2, 4, 8, 16, to fine-tune a good encoder (Patel 2022); "
        "contrastive is cross-entropy over the batch; both is their sum",
        research=True,
    )
    mask: Literal["none", "caption", "question", "answer", "round", "token"] = option(
        "caption",
        "parts of the training dialogs of which a share is removed: captions (paper), questions, answers, rounds of a "
        "question and its answer, or words",
        research=True,
    )
    mask_share: float = option(
        0.2, "share of the parts of --mask that are removed", least=0, below=1, research=True
    )
    separator: str = option(
        ", ",
        "separator between rounds (default: comma and space; [SEP], as in ChatIR's paper, also parts questions from "
        "answers)",
        research=True,
    )
    batch_size: int = option(
        512,
        "dialogs per step and device; the other images of all devices' batches are the negatives",
        least=2,
    )
    micro_batch: int = option(
        128,
        "texts per forward pass; smaller values save memory, gradients equal those of the full batch",
        least=1,
        research=True,
    )
    learning_rate: float | None = option(
        None,
        "AdamW learning rate, multiplied by 0.93 each epoch down to 1e-6 (default: 1e-3; pretrained encoders 5e-5)",
        least=1e-6,
        research=True,
    )

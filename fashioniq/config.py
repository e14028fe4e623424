"""What each command can be told: one dataclass a command, one field a knob."""

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from fashioniq.files import UserError


def knob(
    default: Any, help: str, least: float | None = None, below: float | None = None, alias: str | None = None, positional: str | None = None
) -> Any:
    """A field with its explanation for --help; numbers must be at least `least` and less than `below`; `alias` is a second flag.

    A list with a `positional` name is given without a flag.
    """
    metadata = {"help": help, "least": least, "below": below, "alias": alias, "positional": positional}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def required(help: str) -> Any:
    """A field that must be given."""
    return field(metadata={"help": help})


def check(settings: Any) -> None:
    """Raise UserError, with the option's name, for a number out of range, or a width that the heads do not divide."""
    for one in fields(settings):
        value, flag = getattr(settings, one.name), "--" + one.name.replace("_", "-")
        least, below = one.metadata.get("least"), one.metadata.get("below")
        if isinstance(value, float) and not math.isfinite(value):  # neither less nor more than any bound
            raise UserError(f"{flag} is {value}: it must be a finite number")
        if value is not None and least is not None and value < least:
            raise UserError(f"{flag} is {value}: it must be at least {least:g}")
        if value is not None and below is not None and value >= below:
            raise UserError(f"{flag} is {value}: it must be less than {below:g}")
    has_heads = "transformer" in (getattr(settings, "model", None), getattr(settings, "encoder", None))
    if has_heads and settings.width % settings.heads:
        raise UserError(f"--heads is {settings.heads}: it must divide --width, {settings.width}")


DATA = "folder in Fashion IQ's layout"
CATEGORY = "dresses, shirts, tops, or a name of your own catalog"
FEATURES = "feature store (default: DATA/features/CATEGORY)"
DEVICE = "cpu, cuda, or auto for a GPU where there is one"


@dataclass(kw_only=True)
class DrawSample:
    """Draw the sample catalog: garments, captions, attributes and titles in Fashion IQ's layout, all made from a seed."""

    data: Path = knob(Path("data/sample"), "folder to make")
    products: int = knob(1200, "products of each of the three categories", least=1)
    size: int = knob(96, "side of a picture in pixels, at least 96")
    seed: int = knob(0, "another seed, another catalog", least=0, below=2**32)


@dataclass(kw_only=True)
class ImportCatalog:
    """Make a Fashion IQ folder of a retailer's table and pictures; relative captions are made of attribute differences."""

    table: Path | None = knob(None, "products, one a row: .csv, .parquet or .jsonl; without it every picture is a product", alias="--csv")
    images: Path | None = knob(None, "folder or archive (.zip, .tar, .tar.gz) of pictures named <id>.jpg, <id>_1.jpg, <id>-2.png …, also in folders of it")
    category: str = required(CATEGORY)
    id: str | None = knob(None, "column with the product's id")
    title: str | None = knob(None, "column with the product's title")
    data: Path = knob(Path("data/catalog"), "folder to make")
    picture: str | None = knob(None, "column with the names of the product's pictures in --images, apart by |; the first that can be read is taken")
    url: str | None = knob(None, "column with http or https addresses of the product's pictures, apart by |, instead of --images")
    where: str | None = knob(None, "take only rows with COLUMN=VALUE")
    attributes: list[str] = knob([], "columns whose values are attributes, as colour")
    group: str | None = knob(None, "column that variants of one product share, to keep them in one split")
    max_gigabytes: float = knob(20.0, "an archive that unpacks to more is refused", least=0)
    workers: int = knob(2, "processes that decode pictures", least=0)
    seed: int = knob(0, "another seed, other splits", least=0, below=2**32)


@dataclass(kw_only=True)
class DownloadImages:
    """Download a category's pictures from its list of addresses; what cannot be had is told by reason, and a run that was stopped goes on."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    urls: Path | None = knob(None, "list of addresses, ID <tab> URL a line (default: DATA/image_url/asin2url.CATEGORY.txt, or in DATA itself)")
    connections: int = knob(32, "downloads at a time", least=1)
    per_host: int = knob(16, "of them from one host", least=1)
    retries: int = knob(4, "further attempts after a time-out, 429 or 5xx, each after a longer pause", least=0)
    timeout: float = knob(30.0, "seconds that a download may take", least=0.1)
    max_megabytes: float = knob(20.0, "larger files are refused", least=0.001)


@dataclass(kw_only=True)
class CheckData:
    """Look through a Fashion IQ folder without changing it: exit code 0 clean, 1 with findings, 2 unusable."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str | None = knob(None, "only this category (default: all that the folder has)")
    images: Path | None = knob(None, "folder of pictures (default: DATA/images)")
    report: Path | None = knob(None, "JSON file to write all findings to")
    workers: int = knob(2, "processes that decode pictures", least=0)


@dataclass(kw_only=True)
class ExtractAttributes:
    """Find attribute words in titles, summaries and descriptions, and write them as asin2attr files."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    vocabulary: Path | None = knob(
        None, "DeepFashion's list_attr_cloth.txt, or a CSV with the columns word, type and synonyms (default: about 300 words of this package)"
    )
    column: list[str] = knob([], "TYPE=COLUMN: take a column's values as attributes of that type, as texture=baseColour")
    compare: bool = knob(False, "write nothing, measure precision and recall against the labels that the folder has")
    replace: bool = knob(False, "replace labels that the folder has")


@dataclass(kw_only=True)
class PairReferences:
    """For every product the one of its split whose title shares the heaviest words with it: pairs to be captioned."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    per_target: int = knob(1, "references of each target, the nearest first", least=1)
    compare: bool = knob(False, "write nothing, measure how often the captioned reference is among the first 1, 5 and 50")
    out: Path | None = knob(None, "folder of the files pairs.CATEGORY.SPLIT.json (default: DATA/pairs)")


@dataclass(kw_only=True)
class ExtractFeatures:
    """Fill a feature store with the vector and the top attributes of every product; a run that was stopped goes on."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    features: Path | None = knob(None, FEATURES)
    predictor: Path | None = knob(None, "run of train-attributes: its encoder makes the vectors, it names the attributes")
    encoder: str = knob("efficientnet-b7", "without --predictor: a timm or EfficientNet name, or metadata for vectors of title and attribute words")
    weights: str = knob("imagenet", "imagenet (downloaded), a .pth or .safetensors file, or none for random ones")
    image_size: int = knob(224, "side in pixels that pictures are resized to (with --predictor: its own)", least=1)
    dimensions: int = knob(256, "length of metadata vectors", least=1)
    vectors: Path | None = knob(None, "vectors of your own instead: a .npy file, N×D; needs --ids")
    ids: Path | None = knob(None, "with --vectors: a JSON list of the N product ids")
    attributes: Path | None = knob(None, "with --vectors: a .npy file of N×A attribute scores, whose words are in --attribute-words")
    attribute_words: Path | None = knob(None, "with --attributes: a JSON list of the A words")
    batch_size: int = knob(32, "pictures at a time", least=1)
    workers: int = knob(2, "processes that decode pictures; 0 decodes in this one, with no limit on a picture's time", least=0)
    precision: Literal["auto", "float32", "bfloat16"] = knob("auto", "arithmetic of the encoder; auto is bfloat16 where the machine has it")
    update: bool = knob(
        False, "add to a finished store the products that it lacks, and those whose pictures can be read now; replaced pictures are not noticed"
    )
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class Training:
    """What all trainings share.

    The learning rate is what is given, whatever the batch: for Adam with batches k times as large, √k times it is where to begin
    (Malladi et al. 2022), a captioner's --warmup being counted in steps.
    """

    data: Path = knob(Path("data/fashioniq"), DATA)
    run: Path | None = knob(None, "folder of the run (default: runs/ and what is trained)")
    epochs: int = knob(50, "passes over the training split at most", least=1)
    patience: int = knob(10, "stop after so many epochs without a better validation score", least=1)
    batch_size: int = knob(64, "examples a step", least=1)
    seed: int = knob(0, "of weights, order and dropout", least=0, below=2**32)
    devices: int = knob(1, "GPUs, or processes on a CPU, of each machine; each takes --batch-size examples a step", least=1)
    num_nodes: int = knob(1, "machines that train together", least=1)
    strategy: Literal["auto", "ddp", "ddp_fork"] = knob(
        "auto", "Lightning's way to several processes: ddp, the same as auto, gives the command again for each; ddp_fork copies this one, without GPUs"
    )
    accelerator: Literal["auto", "cpu", "gpu"] = knob("auto", "auto is a GPU where there is one")
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = knob("32-true", "arithmetic, by Lightning's names")
    resume: bool = knob(False, "go on with a run that was interrupted, from its last whole epoch")


@dataclass(kw_only=True)
class TrainAttributes(Training):
    """Train the attribute predictor: all layers on all categories or on DeepFashion, or with --start only the last layer for one category."""

    deepfashion: Path | None = knob(None, "instead of --data: a folder of DeepFashion's category and attribute benchmark, with its list_*.txt files")
    category: str | None = knob(None, "only this category (default: all that the folder has)")
    start: Path | None = knob(None, "run of the first stage, whose encoder is kept as it is")
    encoder: str = knob("efficientnet-b7", "an EfficientNet size or any timm name")
    weights: str = knob("imagenet", "imagenet (downloaded), a .pth or .safetensors file, or none to train from scratch")
    image_size: int = knob(224, "side in pixels that pictures are resized to", least=1)
    learning_rate: float = knob(1e-3, "of AdamW, falling to zero along a cosine", least=0)
    imbalance: Literal["none", "weights", "focal"] = knob(
        "none", "rare attributes: as they come, positives weighted by √(without / with), at most 10, or focal loss"
    )
    at_least: int = knob(20, "attributes of fewer training pictures are left out", least=1)
    workers: int = knob(2, "processes that decode pictures", least=0)
    epochs: int = knob(20, "passes over the training split", least=1)


@dataclass(kw_only=True)
class TrainCaptioner(Training):
    """Train the relative captioner, who will play the user, on human captions of pairs."""

    category: str = required(CATEGORY)
    attrs: bool = knob(False, "see the attributes of both products, not the images alone")
    model: Literal["transformer", "rnn"] = knob("transformer", "the paper's, or show, attend and tell with a recurrent network; that has no heads or layers")
    features: Path | None = knob(None, FEATURES)
    width: int = knob(512, "of the transformer", least=1)
    heads: int = knob(8, "of its attention", least=1)
    hidden: int = knob(2048, "width inside its feed-forward layers", least=1)
    layers: int = knob(6, "of the encoder, and of the decoder", least=1)
    dropout: float = knob(0.1, "share of activations that training drops", least=0, below=1)
    max_words: int = knob(8, "longest caption", least=1)
    at_least: int = knob(2, "words seen less often in training are unknown", least=1)
    noam_factor: float = knob(2.0, "the learning rate is factor · width^-½ · min(step^-½, step · warmup^-3/2)", least=0)
    warmup: int = knob(4000, "steps until the learning rate is highest", least=1)
    beam: int = knob(5, "beams of the captions that validation scores", least=1)
    seeds: int = knob(1, "trainings of so many seeds, from --seed on, in RUN-seed0, RUN-seed1 …", least=1)


@dataclass(kw_only=True)
class TrainRetriever(Training):
    """Train a retriever in simulated dialogs with a frozen captioner, on recorded captions, or both."""

    category: str = required(CATEGORY)
    attrs: bool = knob(False, "see the attributes of the products shown, whether the captioner does or not")
    model: Literal["transformer", "rnn", "composer"] = knob(
        "transformer", "the paper's, or the recurrent one of Guo 2018, or one for a single turn; these have no heads or layers"
    )
    composition: Literal["A", "B", "C", "D", "E", "F"] = knob(
        "A", "of a composer: image, attributes and caption with a gate; B without attributes; C image, caption; D caption; E image; F attributes"
    )
    captioner: Path | None = knob(None, "run of train-captioner that plays the user (default: runs/captioner-CATEGORY[-attrs])")
    start: Path | None = knob(None, "run of train-retriever to begin with its weights, to train on with another learning rate or user")
    features: Path | None = knob(None, FEATURES)
    word_vectors: Path | None = knob(None, "GloVe or word2vec text file; without it the words' embeddings are learnt")
    width: int = knob(256, "of the transformer and of the search space", least=1)
    heads: int = knob(8, "of its attention", least=1)
    hidden: int = knob(1024, "width inside its feed-forward layers", least=1)
    layers: int = knob(6, "of the transformer", least=1)
    attention: Literal["turn-causal", "both-ways"] = knob(
        "turn-causal", "turns look at themselves and at earlier ones, each encoded once, or at all turns, as the paper's do, all encoded anew"
    )
    image_hidden: int = knob(0, "ReLUs of a second path beside the linear embedding of images; 0 for none, as the paper has it", least=0)
    turns: int = knob(5, "turns of a dialog", least=1)
    beam: int = knob(1, "beams of the user's captions in training and validation; 1 is greedy, as the paper's", least=1)
    errors: float = knob(0.0, "share of the captioner's words that are dropped, swapped with the next or negated, a third each", least=0, below=1)
    exclude_shown: bool = knob(False, "never show a product twice in a simulated dialog; evaluate with --exclude-shown too")
    dialogs: Literal["simulated", "recorded", "both"] = knob(
        "simulated", "to learn from: of the captioner, or what people said of the training pairs, as dialogs of one turn, without a captioner; or both"
    )
    loss: Literal["triplet", "triplet-unsquared", "triplet-hard", "cross-entropy"] = knob(
        "triplet", "on squared distances (Guo 2018), on distances (released code), against the nearest negative alone, or cross-entropy"
    )
    margin: float | None = knob(None, "of the triplet losses (default: 0.1, unsquared 10), or the temperature of cross-entropy (0.05)", least=0)
    negatives: Literal["batch", "gallery"] = knob("batch", "the other targets of the batch, or all products of the training split")
    learning_rate: float = knob(1e-3, "of Adam", least=0)
    schedule: Literal["constant", "cosine"] = knob(
        "constant", "of the learning rate: as it is, or rising over a tenth of the steps and falling to zero along a cosine"
    )
    batch_size: int = knob(128, "dialogs a step", least=1)
    seeds: int = knob(1, "trainings of so many seeds, from --seed on, in RUN-seed0, RUN-seed1 …", least=1)


@dataclass(kw_only=True)
class EvalDialogs:
    """Simulate dialogs on a split: every item is a target once; ranks of all, measured per turn, with a page to look at."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    run: Path | None = knob(None, "run of train-retriever")
    user: str | None = knob(
        None,
        "run of train-captioner that plays the user (default: the retriever's own), or human: the recorded captions of the split's pairs as one turn",
    )
    cross: list[str] = knob([], "instead of --run: several retrievers, each with every user, in one table; A,B,C are seeds of one model")
    users: list[str] = knob([], "with --cross: the users, A,B,C as above (default: the retrievers' own)")
    features: Path | None = knob(None, FEATURES)
    split: Literal["train", "val", "test"] = knob("test", "whose items are the targets and the gallery")
    turns: int = knob(5, "turns of a dialog", least=1)
    beam: int = knob(5, "beams of the user's captions; 1 is greedy", least=1)
    errors: float = knob(0.0, "share of the user's words that are dropped, swapped with the next or negated, a third each", least=0, below=1)
    exclude_shown: bool = knob(False, "never show a product twice in a dialog; ranks still count all products")
    captions: Literal["each", "joined"] = knob("each", "with --user human: each caption of a pair as a dialog of its own, or both joined by and")
    first_candidates: Path | None = knob(None, "first_candidates.json of an earlier evaluation, to begin with the same products")
    index: str | None = knob(
        None, "search what is shown by an index of FAISS, as IVF4096,Flat or HNSW32, for catalogs of a million; ranks stay exact (default: exact search)"
    )
    least_recall: float = knob(0.95, "an --index whose recall@10 against exact search is lower is refused", least=0, below=1)
    out: Path | None = knob(None, "folder of the results, replaced if it is there (default: RUN/dialogs-SPLIT, with --cross runs/cross-CATEGORY-SPLIT)")
    batch_size: int = knob(128, "dialogs at a time", least=1)
    seed: int = knob(0, "of the first candidates, and of the user's errors", least=0, below=2**32)
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class EvalCaptions:
    """Score a captioner against human captions: BLEU, ROUGE-L, CIDEr, METEOR, SPICE, beside the agreement of people and two floors."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: str = required(CATEGORY)
    run: Path | None = knob(None, "run of train-captioner; without it only people and the floors are scored, on all captioned pairs")
    features: Path | None = knob(None, FEATURES)
    split: Literal["train", "val", "test"] = knob("val", "whose pairs are captioned; a captioner needs targets, which released test pairs lack")
    beam: int = knob(5, "beams; 1 is greedy", least=1)
    out: Path | None = knob(None, "folder of the results, replaced if it is there (default: RUN/captions-SPLIT, or runs/people-CATEGORY/captions-SPLIT)")
    batch_size: int = knob(128, "pairs at a time", least=1)
    seed: int = knob(0, "of the random captions", least=0, below=2**32)
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class EvalSingleTurn:
    """Search the targets of captioned pairs by candidate and caption, a single turn: by a retriever, or by someone else's answers."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    category: list[str] = knob([], "dresses, shirts or tops, or one of your own; several give a table with their mean")
    run: list[str] = knob([], "for each category a run of train-retriever that answers")
    predictions: list[str] = knob(
        [], "for each category a file that answers: a TREC run, .json of {query: [id, …]}, or .npz of queries, query_vectors, ids, vectors"
    )
    write_queries: Path | None = knob(None, "only write queries.CATEGORY.json to this folder: the queries' names, TARGET-CANDIDATE-n, and the gallery")
    features: list[str] = knob([], "for each category its feature store (default: DATA/features/CATEGORY; other answers than a run's need none)")
    split: Literal["train", "val", "test"] = knob("val", "whose pairs are the queries; released test pairs have no target")
    gallery: Literal["original", "val-split"] = knob("original", "all products of the split, or as VAL only those in its pairs, which scores higher")
    captions: Literal["each", "joined", "both-orders"] = knob("each", "each a query, both joined by and, or the mean of both orders of that")
    exclude_candidate: bool = knob(False, "never find the candidate of the query itself")
    out: Path | None = knob(None, "folder of the results, replaced if it is there (default: single-turn-… in RUN or in a folder named as FILE)")
    batch_size: int = knob(128, "queries at a time", least=1)
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class FetchSpice:
    """Download the Stanford jars that SPICE needs and put them where it looks for them."""

    retries: int = knob(4, "further attempts after a failed download", least=0)


@dataclass(kw_only=True)
class Compare:
    """Is the difference real? Paired bootstrap intervals and randomisation tests between dialog evaluations of the same targets."""

    runs: list[str] = knob([], "folders of eval-dialogs, the first is compared with each other one; A,B,C are seeds of one model", positional="RUN")
    measure: str = knob("R@10", "P, MRR (mean reciprocal rank), R@N of one turn, or Hits@N of all turns until then")
    turn: int | None = knob(None, "after which turn (default: the last that all have)", least=1)
    samples: int = knob(10000, "bootstrap samples, and permutations of the test", least=100)
    out: Path | None = knob(None, "folder for comparison.json, .csv, .tex and the page of dialogs side by side")
    seed: int = knob(0, "of bootstrap and permutations", least=0, below=2**32)


@dataclass(kw_only=True)
class Results:
    """Render docs/results.md and docs/results/ from the run files of results/: every number on these pages comes from one of them."""

    action: list[str] = knob([], "build: render the pages", positional="build")
    check: bool = knob(False, "write nothing; exit with code 1 where a page is not what the run files give")
    results: Path = knob(Path("results"), "folder of the studies, each with study.yaml and the metrics.json files of its runs")
    docs: Path = knob(Path("docs"), "folder of results.md and results/")


@dataclass(kw_only=True)
class EvalChatIR:
    """Rank the images of a search space by recorded question dialogs after every round, as ChatIR does."""

    dialogues: list[str] = knob([], "files of ChatIR, VisDial v1.0 or PlugIR; several come into one table and one plot")
    search_space: Path = required("JSON list of the names of all images that are searched")
    images: Path | None = knob(None, "folder that these names begin in; names without a suffix are also tried with .jpg, .jpeg, .png and .webp")
    encoder: str | None = knob(None, "CLIP or BLIP, as Salesforce/blip-itm-base-coco or a folder with one, or a run of train-dialog-encoder")
    weights: Path | None = knob(None, "tensors to put into BLIP: ChatIR's checkpoint, a fine-tuned state_dict (.pth, .ckpt) or .safetensors")
    features: Path | None = knob(None, "feature store of the images, filled where it lacks some (default: IMAGES/features and the weights' checksum)")
    query_vectors: list[str] = knob([], "instead of --encoder: for each of --dialogues a .npy file, dialogs × rounds × D")
    gallery_vectors: Path | None = knob(None, "with --query-vectors: a .npy file, images × D in the order of the search space")
    joined: str | None = knob(None, "what stands between the rounds of a query (default: as a run was trained, else a comma; ChatIR's paper has [SEP])")
    rounds: Literal["auto", "joined", "alone"] = knob(
        "auto", "whether a query is all rounds so far or the last alone, as PlugIR's; auto is alone where fewer than half hold a question mark"
    )
    out: Path = required("folder of the results, replaced if it is there")
    batch_size: int = knob(128, "dialogs, or pictures, at a time", least=1)
    workers: int = knob(2, "processes that decode pictures; 0 decodes in this one", least=0)
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class Asking:
    """Who asks: what make-dialogues and chat share."""

    data: Path = knob(Path("data/fashioniq"), DATA)
    split: Literal["train", "val", "test"] = knob("test", "whose products the dialogs are about")
    questioner: Literal["recorded", "few-shot", "unanswered", "in-order", "shuffled", "candidate-aware"] = knob(
        "candidate-aware",
        "questions of recorded dialogues, of a language model (few-shot: each after the answers; unanswered: all at once), or about attributes: "
        "in one order, in a random one in each dialog, or what splits the current candidates best",
    )
    language_model: str | None = knob(None, "of few-shot and unanswered: a folder or name of the hub, or endpoint:NAME for a model at OPENAI_BASE_URL")
    encoder: str | None = knob(None, "who finds the candidates: a run of train-dialog-encoder, or CLIP or BLIP")
    features: Path | None = knob(None, "feature store of the encoder (default: DATA/features/CATEGORY, of CLIP and BLIP with -NAME, filled where it lacks some)")
    attributes: Path | None = knob(None, "run of train-attributes whose probabilities say what candidates would answer, from the features (default: labels)")
    candidates: int = knob(100, "nearest products that the questioner looks at", least=1)
    rounds: int = knob(10, "questions of a dialog", least=1)
    cache: Path = knob(Path("runs/endpoint-cache"), "folder of the endpoint's answers; what it holds is not asked again")
    retries: int = knob(4, "further attempts after a time-out, 429, 5xx or a malformed answer, each after a longer pause", least=0)
    timeout: float = knob(60.0, "seconds that an answer of the endpoint may take", least=0.1)
    seed: int = knob(0, "of the orders of shuffled", least=0, below=2**32)
    device: str = knob("auto", DEVICE)


@dataclass(kw_only=True)
class MakeDialogues(Asking):
    """Make dialogues of questions and answers and write them as ChatIR does; a run that was stopped goes on."""

    category: str | None = knob(None, CATEGORY + "; not needed with --start, but for attributes and candidates")
    start: Path | None = knob(None, "dialogues whose images and captions begin the new ones (default: DATA/dialogues/CATEGORY.SPLIT.json, else titles)")
    answerer: Literal["labels", "vqa", "recorded", "person"] = knob("labels", "true attributes, a model that sees the picture, recorded answers, or you")
    vqa_model: str | None = knob(None, "of vqa: BLIP-2 or BLIP by folder or name of the hub, or endpoint:NAME for a model at OPENAI_BASE_URL")
    recorded: Path | None = knob(None, "dialogues of the recorded questions and answers (default: those of --start)")
    images: Path | None = knob(None, "folder that the images' names begin in (default: the catalog's pictures)")
    out: Path = required("file to write")
    batch_size: int = knob(32, "dialogs at a time; a person is asked picture by picture", least=1)


@dataclass(kw_only=True)
class Chat(Asking):
    """Answer questions at the terminal and see which products are found; Ctrl-D ends it."""

    category: str = required(CATEGORY)
    show: int = knob(5, "products shown each time", least=1)


@dataclass(kw_only=True)
class TrainDialogEncoder(Training):
    """Train the image retriever of question dialogs, ChatIR's F: its text encoder, on partial dialogs; the images' features stay as they are."""

    category: str | None = knob(None, f"{CATEGORY}; tells where in DATA the dialogues and the feature store are")
    dialogues: Path | None = knob(None, "to learn from, in the format of ChatIR or VisDial (default: DATA/dialogues/CATEGORY.train.json)")
    val_dialogues: Path | None = knob(None, "to choose the best epoch by, among their images (default: DATA/dialogues/CATEGORY.val.json)")
    features: Path | None = knob(None, f"{FEATURES}, with the images of both")
    encoder: str = knob("transformer", "trained from scratch; or CLIP or BLIP to train on, by folder or name of the hub, whose images' vectors the store holds")
    loss: Literal["recall", "contrastive", "both"] = knob(
        "both", "1 − R@1, 2, 4, 8, 16, smoothed, which teaches an encoder that ranks well already (Patel 2022); cross-entropy over the batch; their sum"
    )
    mask: Literal["none", "caption", "questions", "answers", "rounds", "tokens"] = knob(
        "caption", "what some examples lack, so that no part alone is relied on: all of it, of rounds the half, of tokens 15 %"
    )
    mask_share: float = knob(0.2, "share of the examples that lack it", least=0, below=1)
    joined: str = knob(", ", "what stands between the rounds of a query; ChatIR's paper has [SEP]")
    batch_size: int = knob(512, "dialogs a step: the images of all are each other's negatives", least=2)
    chunk: int = knob(128, "texts in memory at a time; the gradient is the batch's nevertheless", least=1)
    learning_rate: float | None = knob(None, "of AdamW, times 0.93 each epoch until 1e-6 (default: 1e-3, of CLIP or BLIP 5e-5)", least=1e-6)
    width: int = knob(256, "of the transformer and of the search space; CLIP and BLIP have sizes of their own", least=1)
    heads: int = knob(8, "of its attention", least=1)
    hidden: int = knob(1024, "width inside its feed-forward layers", least=1)
    layers: int = knob(2, "of the transformer", least=1)
    dropout: float = knob(0.1, "share of activations that training drops; CLIP and BLIP are trained without", least=0, below=1)
    limit: int = knob(128, "words of a dialog that are read", least=1)
    at_least: int = knob(2, "words seen less often in training are unknown", least=1)

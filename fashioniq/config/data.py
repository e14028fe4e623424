"""Settings of the commands that create, download, check and describe data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.shared import (
    CATALOGS,
    CATEGORY,
    DATA,
    FEATURES,
    Batched,
    Decoding,
    InCatalog,
    OfAnyCategory,
    OfCategory,
    OnDevice,
    Seeded,
    option,
    refuse,
)


@dataclass(kw_only=True)
class DrawSample(Seeded):
    """Draw a synthetic sample catalog to try all commands: garments, captions, attributes and titles."""

    data: Path = option(Path("data/sample"), "output folder")
    products: int = option(1200, "products per category; there are three", least=1)


@dataclass(kw_only=True)
class ImportCatalog(Seeded, Decoding, OfCategory):
    """Convert a retailer's table and pictures to a Fashion IQ folder, or update the offers of one.

    Captions are generated from attributes. A table without pictures replaces the offers of an imported category;
    prices, sizes, stock or links whose option is not given stay for the products of the table. With pictures, the
    products of today replace an imported category: known products keep their splits, new ones are split with the
    seed of the first import, and captions by people stay.
    """

    table: Path | None = option(
        None,
        "table with one product per row: .csv, .xlsx, .parquet or .jsonl (default: each picture is a product)",
        alias="--csv",
    )
    images: Path | None = option(
        None,
        "folder (with subfolders) or .zip of pictures named <id>.jpg, <id>_1.jpg, <id>-2.png … (required "
        "without --url, but for an update of offers)",
    )
    id: str | None = option(None, "column with the product ids (required with --table)")
    title: str | None = option(None, "column with the product titles")
    data: Path = option(Path("data/catalog"), "output folder")
    picture: str | None = option(
        None, "column with picture names in --images, separated by |; the first readable picture is used"
    )
    url: str | None = option(
        None,
        "column with http or https addresses of pictures, separated by | or commas; used instead of --images",
    )
    where: str | None = option(
        None,
        "filter COLUMN=VALUE, such as category=Dresses: import only the rows with this value in this column",
    )
    attributes: list[str] = option(
        [],
        "columns whose values are attributes, such as colour, or as TYPE=COLUMN such as texture=colour",
    )
    group: str | None = option(
        None, "column that identifies the variants of a product; variants stay in one split"
    )
    price: str | None = option(None, "column with prices, such as 59,90 € or 1299.00")
    currency: str | None = option(
        None, "currency of prices that do not name theirs: a code such as EUR, or a column"
    )
    sizes: str | None = option(None, "column with sizes, separated by commas, slashes, | or spaces")
    stock: str | None = option(
        None, 'column with the stock: numbers, true and false, or words such as "in stock" and "ausverkauft"'
    )
    link: str | None = option(None, "column with http or https addresses of the products' pages")
    encoding: str | None = option(
        None, "encoding of a .csv table, such as cp1252 or latin-1 (default: utf-8)"
    )
    sheet: str | None = option(None, "sheet of an .xlsx table (default: the first one)")
    language: str = option("en", "language of labels, and of the captions generated from them: en or de")
    folders: list[str] = option(
        [],
        "class folders in --images that form the category (default: the folder with its name, or all if there "
        "is none)",
    )


@dataclass(kw_only=True)
class DownloadImages(InCatalog):
    """Download the pictures of a category from its list of addresses; the same command resumes a download."""

    urls: Path | None = option(
        None,
        "list of addresses, one ID <tab> URL per line (default: asin2url.CATEGORY.txt in DATA/image_url or "
        "DATA)",
    )


@dataclass(kw_only=True)
class CheckData(Decoding, OfAnyCategory):
    """Check a Fashion IQ folder, or a folder of conversations or visual feedback, without changing it: exit code 0
    if clean, 1 with findings, 2 if unusable.
    """

    data: Path = option(
        CATALOGS, DATA + ", or of make-conversations or eval-dialogs --record", reads="catalog"
    )
    images: Path | None = option(None, "folder of pictures (default: DATA/images)")
    report: Path | None = option(None, "JSON file for all findings")


@dataclass(kw_only=True)
class ExtractAttributes(InCatalog):
    """Find attribute words in titles, summaries and descriptions, and write them as asin2attr files."""

    vocabulary: Path | None = option(
        None,
        "vocabulary: DeepFashion's list_attr_cloth.txt, or a CSV file with the columns word, type and "
        "synonyms (default: the built-in list of about 300 words)",
    )
    column: list[str] = option(
        [], "columns as TYPE=COLUMN whose values are attributes of a type, such as texture=baseColour"
    )
    replace: bool = option(False, "replace existing labels")


@dataclass(kw_only=True)
class CaptionPairs(Seeded, InCatalog):
    """Collect relative captions from people, on a page in their browser or in a CSV file.

    The same command resumes: pairs with a caption are not asked again.
    """

    split: Literal["all", "train", "val", "test"] = option(
        "all", "split of the pairs; all gives 70 percent to train, 15 to val and 15 to test"
    )
    count: int = option(100, "pairs in all, including those captioned or skipped earlier", least=1)
    titles: bool = option(
        False,
        "pair each product with the one that shares the rarest title words, and write them to DATA/pairs",
    )
    features: Path | None = option(None, FEATURES + "; its nearest neighbors become pairs")
    port: int = option(8765, "port of the page on 127.0.0.1; 0 uses a free one", least=0, below=2**16)
    export: Path | None = option(None, "new CSV file for the open pairs, to be captioned in a spreadsheet")
    captions: Path | None = option(
        None, "CSV file of --export with captions, which are saved", alias="--import", reads="file"
    )

    def validate(self) -> None:
        """Raise UserError for options that cannot be combined."""
        refuse(
            (
                self.export and self.captions,
                "--export and --import cannot be combined; leave one of them out",
            ),
            (
                self.split == "all" and self.count < 3,
                f"--count is {self.count}: it must be at least 3 for --split all",
            ),
        )


@dataclass(kw_only=True)
class ExtractFeatures(OnDevice, Batched, Decoding):
    """Compute the vectors of all products, of their pictures or texts, and their top attributes, or import vectors.

    The same command resumes an interrupted run.
    """

    data: Path = option(
        CATALOGS,
        DATA + "; without --category, a folder of make-conversations, or of pictures",
        reads="catalog",
    )
    category: str | None = option(None, CATEGORY + " (not for conversations and folders of pictures)")
    features: Path | None = option(None, FEATURES + "; DATA/features without --category")

    predictor: Path | None = option(
        None,
        "run of train-attributes whose encoder computes the vectors and whose head predicts the attributes",
        reads="attribute predictor",
    )
    encoder: str = option(
        "efficientnet-b7",
        "encoder without --predictor: a timm or EfficientNet name; a model of transformers (CLIP, BLIP, SigLIP, "
        "BLIP-2, sentence encoders) or open_clip by folder, Python package or Hugging Face name; http://…/v1#MODEL for "
        "an embeddings endpoint; or metadata for vectors of title and attribute words. Encoders of texts alone encode "
        "titles and labels, or captions",
    )
    weights: str | None = option(
        None,
        "encoder weights: imagenet (timm, downloaded), a .pth or .safetensors file, a Python package with one, or none "
        "(timm, random) (default: those of the encoder)",
    )
    image_size: int | None = option(
        None,
        "picture size in pixels per side for timm networks (default: 224); others have their own",
        least=1,
    )
    patches: bool = option(
        False,
        "store token features of the layer before the last, too, which train-chatsearcher uses; for models of "
        "transformers",
    )
    metadata: bool = option(
        False,
        "append a vector of title and attribute words to that of each picture, or text, so that requests also find "
        "what only the words of the catalog say",
    )
    batch_size: int = 32
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto",
        "arithmetic of timm networks; auto is bfloat16 if the hardware supports it, whose features are stored in "
        "float16; those of float32 are not rounded",
    )
    update: bool = option(
        False,
        "add missing products and newly readable pictures to a complete store; replaced pictures, and changed texts "
        "or labels of products in it, are not detected",
    )
    engine: Literal["local", "ray"] = option(
        "local",
        "where pictures are encoded: in this process, or by the workers of the Ray cluster at RAY_ADDRESS, by default "
        "one on this machine",
    )
    pictures: Path | None = option(
        None,
        "pictures: of a folder of pictures, a .json list of names in it, such as a search space; for --engine ray, a "
        ".zip of files named <id>.jpg, or a list of addresses such as asin2url.dress.txt (default: all of --data)",
        reads="file",
    )

    vectors: Path | None = option(
        None, "vectors of your own in place of an encoder: a .npy file, N×D", reads="file"
    )
    ids: Path | None = option(
        None, "product ids of --vectors: a JSON list of N strings, in the order of the rows", reads="file"
    )

    def validate(self) -> None:
        of_words = self.encoder == "metadata"
        refuse(
            (
                bool(self.vectors) != bool(self.ids),
                "--vectors and --ids belong together; give both, or neither",
            ),
            (
                self.vectors and (self.predictor or self.metadata or self.update or self.engine != "local"),
                "--vectors replaces an encoder: leave out --predictor, --metadata, --update and --engine",
            ),
            (
                not self.category and (self.predictor or self.metadata or self.vectors or of_words),
                "--predictor, --metadata, --vectors and --encoder metadata need a catalog; give --category",
            ),
            (
                self.pictures and self.engine != "ray" and (self.category or self.pictures.suffix != ".json"),
                "--pictures needs --engine ray; without it, download the pictures with download-images, or unpack "
                "them to images/",
            ),
            (
                of_words and self.engine == "ray",
                "--engine ray encodes pictures: it cannot be combined with --encoder metadata",
            ),
            (
                of_words and self.predictor,
                "--predictor needs pictures: it cannot be combined with --encoder metadata",
            ),
            (
                of_words and self.metadata,
                "--encoder metadata has vectors of words alone; leave out --metadata, which appends them to those "
                "of pictures, or of a sentence encoder",
            ),
            (
                of_words and self.update,
                "--update cannot be combined with --encoder metadata: remove the store and run the command again, "
                "which takes seconds",
            ),
        )

"""Find attribute words in the product texts of a catalog, and write them as labels."""

from collections.abc import Mapping

from fashioniq.config import ExtractAttributes
from fashioniq.data.attributes import AttributeVocabulary, own_words
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import LONGEST_TITLE, split_file
from fashioniq.data.languages import language
from fashioniq.data.vocabularies import read_vocabulary
from fashioniq.files import plain
from fashioniq.prepare import labelling
from fashioniq.prepare.labelling import Labels
from fashioniq.prepare.write_category import CAPTIONS, is_generated, renew_captions
from fashioniq.report.tables import print_table


def run(settings: ExtractAttributes) -> dict[str, Labels]:
    """Label the products of all splits."""
    catalog = Catalog(settings.data, settings.category)
    vocabulary = (
        read_vocabulary(settings.vocabulary) if settings.vocabulary else own_words(language(catalog.language))
    )
    columns = [labelling.parse_column(text) for text in settings.column]
    if not settings.replace:
        labelling.refuse_to_replace(catalog)
    rows = labelling.read_rows(catalog, columns)
    print(plain(f"{catalog.category}: {len(vocabulary.lists_of):,} words of {vocabulary.source}"))
    long = sum(
        len(str(row.get("title"))) > LONGEST_TITLE
        for split_rows in rows.values()
        for row in split_rows.values()
    )
    if long:
        print(
            f"  skipped: {long} titles of more than {LONGEST_TITLE:,} characters, which are not real titles"
        )
    labels = {
        split: labelling.label_products(split_rows, vocabulary, columns) for split, split_rows in rows.items()
    }
    generated = is_generated(catalog)
    labelling.write_labels(catalog, labels)
    _print_counts(catalog, labels, vocabulary)
    if generated:
        captioned, pairs = renew_captions(catalog, labels)
        print(f"captions were generated again from these labels, for {captioned:,} of {pairs:,} pairs")
    elif catalog.captions_origin == CAPTIONS:
        print(
            "captions are unchanged, because they are not those that the import generated; to generate them "
            "from these labels, import the table into a new folder first"
        )
    return labels


def _print_counts(catalog: Catalog, labels: Mapping[str, Labels], vocabulary: AttributeVocabulary) -> None:
    rows, never = labelling.count_rows(catalog, labels, vocabulary)
    print_table(
        ["split", "products", "with text", "with words", "without", "words each", "words never found"], rows
    )
    print(
        f"{never:,} of {len(vocabulary.lists_of):,} words were not found in any split; "
        f"labels are in {split_file(catalog.root, 'attributes', catalog.category, '*')}"
    )

"""Input of an import as its options describe it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fashioniq.data.languages import language
from fashioniq.files import UserError
from fashioniq.options import refuse
from fashioniq.prepare.labelling import parse_column
from fashioniq.prepare.offers import OfferColumns
from fashioniq.prepare.tables import column_names

_OF_FILE = ("encoding", "sheet")  # options of the table itself


@dataclass(frozen=True)
class ImportSource(OfferColumns):
    """Input of an import: a table and its column names, and pictures; see `fashioniq import-catalog --help`.

    Raises UserError for options that cannot be combined.
    """

    table: Path | None = None
    images: Path | None = None
    id: str | None = None
    title: str | None = None
    picture: str | None = None
    url: str | None = None
    where: str | None = None
    attributes: Sequence[str] = ()
    group: str | None = None
    folders: Sequence[str] = ()
    encoding: str | None = None
    sheet: str | None = None
    language: str = "en"

    def __post_init__(self) -> None:
        given = [
            name
            for name in (
                "id",
                "title",
                "picture",
                "url",
                "where",
                "attributes",
                "group",
                *self.offer_columns,
                *_OF_FILE,
            )
            if getattr(self, name) not in (None, (), [])
        ]
        if not self.table and given:
            what = "table" if given[0] in _OF_FILE else "column"
            raise UserError(f"--{given[0]} refers to a {what}: give the table with --table")
        if self.table and not self.id:
            raise UserError(
                "--table needs --id, the column with the product ids: "
                f"the columns of {self.table} are "
                + ", ".join(column_names(self.table, self.encoding, self.sheet))
            )
        names = ("title", "picture", "attributes", "group", "folders") if self.has_offers_only else ()
        refuse(
            (
                self.currency and not self.price,
                "--currency is that of the prices: give their column with --price",
            ),
            *(
                (
                    getattr(self, name),
                    f"--{name} is for a new catalog: give its pictures with --images or --url",
                )
                for name in names
            ),
            (
                not self.has_offers_only and (self.images is None) == (self.url is None),
                "expected either --images, a folder or archive of pictures, or --url, a column of --table",
            ),
            (
                self.folders and self.url,
                "--folders refers to folders in --images: it cannot be combined with --url",
            ),
            (
                self.picture and self.url,
                "--picture refers to files in --images: it cannot be combined with --url",
            ),
        )
        _ = self.columns, language(self.language)

    @property
    def has_offers_only(self) -> bool:
        """Whether the table updates the offers of a catalog, as it comes without pictures."""
        return (
            bool(self.table and any(self.offer_columns.values())) and self.images is None and self.url is None
        )

    @property
    def columns(self) -> list[tuple[int | None, str]]:
        """Attribute columns with the number of the type of their values, None to find it for each value.

        Raises UserError if `attributes` has an unknown type.
        """
        return [
            parse_column(text, "--attributes") if "=" in text else (None, text) for text in self.attributes
        ]

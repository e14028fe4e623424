"""`fashioniq chat`."""

from collections.abc import Sequence

from fashioniq.answerers import Person, clean
from fashioniq.commands.talking import questioner_of, search_of
from fashioniq.config import Chat
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import Dialogue
from fashioniq.files import UserError
from fashioniq.questioners import Questioner, Search, converse


def run(settings: Chat) -> None:
    """Show what is found, ask, and so on until the questions are asked or the person has enough."""
    if settings.questioner == "recorded":
        raise UserError("--questioner recorded has no questions for you: take another")
    catalog = Catalog(settings.data, settings.category)
    search, ids = search_of(settings, catalog)
    shown = Shown(questioner_of(settings, catalog, finding=(search, ids)), search, catalog, ids, settings.show)
    try:
        caption = clean(input("What are you looking for? ")) or settings.category
        (told,) = converse(shown, Person(lambda image: ""), [Dialogue("", (caption,))], settings.rounds, [0])
        shown.tell(list(told.rounds))
    except (EOFError, KeyboardInterrupt):
        print("\nyou ended it")


class Shown:
    """A questioner who first tells which products are nearest to what was said."""

    def __init__(self, questioner: Questioner, search: Search, catalog: Catalog, ids: Sequence[str], show: int) -> None:
        self._questioner, self._search, self._catalog, self._ids, self._show = questioner, search, catalog, ids, show

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        for said in dialogues:
            self.tell(said)
        return self._questioner.ask(dialogues, numbers)

    def tell(self, said: list[str]) -> None:
        """Print the nearest products: place, id, title, picture."""
        print()
        for place, item in enumerate(self._search([said], self._show)[0], start=1):
            name = self._ids[item]
            print(f"{place:3}. {name}  {clean(self._catalog.titles.get(name, ''))}  {self._catalog.images.get(name, '')}".rstrip())

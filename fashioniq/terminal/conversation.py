"""Live dialog, read line by line from the terminal."""

import re
from dataclasses import replace

from fashioniq.data.sanitize import clean
from fashioniq.data.words import composed
from fashioniq.files import UserError
from fashioniq.language.wishes import OfferLimits
from fashioniq.loop.dialog import LONGEST, Dialog
from fashioniq.terminal.view import NONE_LEFT, View, unknown_of_all

HELP = """\
your own words      the next request, such as “is navy with longer sleeves” or “shorter than the second one”, or an
                    answer to the question
more like 3         make the next request about product 3; also “more like 3 but longer”
undo                take the last step back
this is it          choose the product marked →, otherwise the first one, and end; “this is it 3” chooses product 3
quit, Ctrl-D        end without choosing a product"""
GERMAN_HELP = (
    "auf Deutsch         mehr wie 3, mehr wie 3 aber länger, zurück, das ist es, das ist es 3, hilfe, ende"
)

_LIKE = re.compile(
    r"(?:more like|mehr wie) (?:num(?:b|m)er )?#?(\d+)[.,!:]?(?:,?\s+(?:but|and|only|aber|und|nur)\b)?\s*(.*)",
    re.IGNORECASE,
)
_CHOSEN = re.compile(r"(?:this is it|das ist es)(?:[,:]?\s+(?:num(?:b|m)er )?#?(\d+))?[.!]*", re.IGNORECASE)
_GERMAN = {"hilfe": "help", "zurück": "undo", "rückgängig": "undo", "ende": "quit", "beenden": "quit"}


class Conversation:
    """One dialog in the terminal: `live` is its current state, `chosen` the id of the chosen product."""

    def __init__(self, live: Dialog, view: View) -> None:
        self.live, self.view = live, view
        self.chosen: str | None = None
        wording = live.system.wording
        self._german = wording is not None and wording.lexicon.grammar.code == "de"
        self.products = view.show(live)

    def run(self) -> None:
        """Read lines until the person chooses a product or ends the dialog, also by Ctrl-D or Ctrl-C."""
        try:
            while not self._ended_by(clean(input(self._prompt()), LONGEST)):
                continue
        except (EOFError, KeyboardInterrupt):
            print()
        self.view.end(self.live, self.products)

    def _prompt(self) -> str:
        if self.live.offered:
            return "> "
        rest = "What should it look like?" if self.live.offer.pictures else "What else?"
        open_question = rest if self.live.said else "What are you looking for?"
        return f"{clean(self.live.question) or open_question} > "

    def _ended_by(self, line: str) -> bool:
        """Execute a line and return whether it ends the dialog; errors are printed and change nothing."""
        try:
            return self._done(line)
        except UserError as error:
            print(f"{str(error)[0].upper()}{str(error)[1:]}.")
            return False

    def _done(self, line: str) -> bool:
        slash, line = line.startswith("/"), line.removeprefix("/").strip()
        command = composed(line).lower().rstrip(".!?")
        if self._german:
            command = _GERMAN.get(command, command)
        if command in ("quit", "exit"):
            return True
        if found := _CHOSEN.fullmatch(line):
            self.chosen = self._product(found[1]) if found[1] else self.live.offered or self.products[0].id
            return self.chosen is not None
        if command == "help":
            print(f"{HELP}\n{GERMAN_HELP}" if self._german else HELP)
        elif command == "undo":
            self._show(self.live.undo(), unchanged="There is nothing to undo.")
        elif found := _LIKE.fullmatch(line):
            if name := self._product(found[1]):
                self._more_like(name, found[2])
        elif slash:
            print("There is no such command; “help” lists the commands.")
        elif line:
            self._show(self._after(self.live, line))
        return False

    def _product(self, number: str) -> str | None:
        """Id of the product with this number in the table; None if there is none."""
        if 1 <= int(number) <= len(self.products):
            return self.products[int(number) - 1].id
        print(f"Expected a number from 1 to {len(self.products)}, found {number}.")
        return None

    def _more_like(self, name: str, words: str) -> None:
        live = self.live.more_like(name)
        said = self._after(live, words) if words else live
        # one line is one step to undo
        self._show(live if said is live else replace(said, before=self.live))

    def _after(self, live: Dialog, words: str) -> Dialog:
        """Dialog after these words; unchanged if nothing of them is understood."""
        request = live.system.read(words)
        if request.unknown:
            ignored = (
                ", ignored" if live.system.shows_items else ""
            )  # a text encoder replaces each by a token
            print(f"unknown words{ignored}: {', '.join(dict.fromkeys(request.unknown))}")
        for said, meant in request.changed:
            print(f"{said} → {meant}")
        shown = [product.id for product in self.products]
        if request.others and live.system.shows_items:
            later = live.pass_over(shown)
        elif live is self.live and live.system.shows_items:
            later = live.say(words, about=live.system.named(words, shown))
        else:
            later = live.say(words)
        if request.limits != OfferLimits():
            for name in later.unlimited:
                print(unknown_of_all(name))
        if (later.allowed_N is not None or later.passed) and not later.nearest(1):
            print(NONE_LEFT)
            return live
        return later

    def _show(self, live: Dialog, unchanged: str = "Nothing has changed.") -> None:
        if live is self.live:
            print(unchanged)
            return
        self.live = live
        self.products = self.view.show(live)

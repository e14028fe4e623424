"""`fashioniq chat`."""

from torch import Tensor

from fashioniq.config import Chat
from fashioniq.data.catalog import Catalog
from fashioniq.data.sanitize import clean, clean_answer
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk
from fashioniq.loop.rollout import System
from fashioniq.systems.questions import asker_of, searched_by_text


def run(settings: Chat) -> None:
    """Ask, show the products found, and so on until all questions were asked or the person ends the chat."""
    if settings.questioner == "recorded":
        raise UserError("recorded questions cannot be used in chat; choose another --questioner")
    catalog = Catalog(settings.data, settings.category)
    retriever, gallery = searched_by_text(settings, catalog)
    system = System(retriever, asker_of(settings, catalog, gallery)([0]), gallery)
    try:
        caption = clean(input("What are you looking for? ")) or settings.category
        talk = _shown(system, catalog, settings, system.hear(system.begin(1), Message(), Message(texts=[caption])))
        while len(talk.turns) <= settings.rounds:
            offer = system.offer(talk)
            answer = clean_answer(input(f"{(offer.texts or [''])[0]} "))
            talk = _shown(system, catalog, settings, system.hear(talk, offer, Message(texts=[answer])))
    except (EOFError, KeyboardInterrupt):
        print("\nChat ended.")


def _shown(system: System, catalog: Catalog, settings: Chat, talk: Talk) -> Talk:
    """The talk, after its nearest products were printed: place, id, title, picture."""
    print()
    for place, item in enumerate(_nearest(system.gallery, talk.queries[-1], settings.show), start=1):
        name = system.gallery.items.ids[item]
        print(f"{place:3}. {name}  {clean(catalog.titles.get(name, ''))}  {catalog.images.get(name, '')}".rstrip())
    return talk


def _nearest(gallery: Gallery, query_BD: Tensor, count: int) -> list[int]:
    return gallery.top(query_BD, min(count, len(gallery)))[1][0].tolist()

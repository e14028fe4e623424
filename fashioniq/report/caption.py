"""Page on which people caption pairs of products."""

from typing import Any

from fashioniq.report.templates import environment


def caption_page(*, person: str, message: str, nonce: str, **values: Any) -> str:
    """Page for a person with the next pair, or the question for a name if `person` is empty.

    `values` are `pair` (None if no pair is open), `shown` (both products), `draft` (text of the caption) and
    `progress`. Only style and script with the `nonce` are allowed.
    """
    return (
        environment()
        .get_template("caption.html")
        .render(title="Caption pairs", person=person, message=message, nonce=nonce, **values)
    )

"""Removal of personal data from what people write, before it is stored."""

import re
from typing import Any

REMOVED = "[removed]"
_UNSEEN = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"  # soft hyphens, zero-width spaces, marks of direction
_PERSONAL = re.compile(
    rf"[\w.+'{_UNSEEN}-]{{1,64}}[@＠﹫][\w{_UNSEEN}-]{{1,63}}(?:[.．][\w{_UNSEEN}-]{{1,63}})+"  # e-mail addresses
    # phone numbers: seven digits or more with separators
    rf"|\+?(?:[(（]?\d[\s()（）./\u2010-\u2015{_UNSEEN}-]{{0,3}}){{6,}}\d"
    r"|\d{6,}"
)


def scrub(text: str) -> str:
    """Text with e-mail addresses, phone numbers and runs of six or more digits replaced by REMOVED.

    Seven digits with nothing but separators between them count as a phone number, such as "36 38 40 42".
    Addresses that are spelled out ("name at shop dot com"), names and places remain.
    """
    return _PERSONAL.sub(REMOVED, text)


def scrub_all(value: Any) -> Any:
    """A JSON value with all of its texts scrubbed, except keys of objects."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {key: scrub_all(one) for key, one in value.items()}
    return [scrub_all(one) for one in value] if isinstance(value, list) else value

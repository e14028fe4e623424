"""Connection to the model hub: it is tried once, where its client would retry each file for half a minute."""

import functools


@functools.cache
def use_cache_if_offline() -> None:
    """Use only files that were downloaded before if the hub does not answer one request within ten seconds."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if not constants.HF_HUB_OFFLINE:
        try:
            get_session().head(constants.ENDPOINT, timeout=10)
        except Exception:  # those of httpx, among them errors about proxies and certificates
            constants.HF_HUB_OFFLINE = True

from tests.databases import administer, engine, fresh_url, server, url  # noqa: F401
from tests.unit.shop import conversation_folder, shop  # noqa: F401

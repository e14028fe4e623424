from tests.databases import administer, engine, fresh_url, server, url  # noqa: F401

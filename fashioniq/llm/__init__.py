"""Language models: local ones with `transformers`, and any OpenAI-compatible server, with a cache of
answers."""

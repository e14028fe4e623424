"""Language models: local ones with `transformers`, and those on OpenAI-compatible servers."""

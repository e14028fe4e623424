"""Language models: local ones by `transformers`, and OpenAI-compatible servers with a cache."""

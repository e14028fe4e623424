"""Language models: local ones of `transformers`, and those of OpenAI-compatible servers."""

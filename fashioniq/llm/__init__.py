"""Language models: local ones of `transformers`, and those of any OpenAI-compatible server, with answers kept on disk."""

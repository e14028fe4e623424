"""PlugIR's released dialogs: each round is a complete query, rewritten by a language model (Lee et al. 2024)."""

from dataclasses import replace

from fashioniq.config import EvalChatIR
from fashioniq.systems import chatir
from fashioniq.systems.task import Task


def build(options: EvalChatIR) -> list[Task]:
    """Tasks of ChatIR's evaluation with the last round alone as the query."""
    return chatir.build(replace(options, query="last"))

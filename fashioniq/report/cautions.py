"""Warnings beside results that mean less than their figures say."""

from fashioniq.data.evaluations import TurnMetrics
from fashioniq.metrics.ranking import at_chance

REPETITIVE = 0.5  # share of a user's turns with one and the same sentence
RANDOM = "random weights"


def cautions(metrics: TurnMetrics) -> list[str]:
    """What a reader must know before the figures: a result at chance, a user or features without information."""
    found = []
    if metrics.turns and at_chance(float(metrics.turns[-1].get("P", 100)), metrics.dialogs):
        found.append("P after the last turn is at chance level; the retriever does not understand this user")
    if repetitive(metrics) and (said := metrics.facts.most_frequent):
        found.append(
            f"the user says {said.words!r} in {100 * said.share:.0f} % of all turns, so there is little to "
            "understand"
        )
    if str(metrics.facts.features or "").endswith(RANDOM):
        found.append(f"the features are of an encoder with {RANDOM}; extract them with trained weights")
    return found


def repetitive(metrics: TurnMetrics) -> bool:
    """Whether a user says one sentence in most turns."""
    said = metrics.facts.most_frequent
    return bool(said and said.share > REPETITIVE)

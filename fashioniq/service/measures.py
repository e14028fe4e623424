"""Measures of the service for Prometheus. They hold counts and times, never ids or texts of shoppers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}  # a client may send any word
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measures:
    """Measures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "fashioniq_request_seconds",
            "Time of a request",
            ["method", "route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge("fashioniq_waiting", "Requests that wait for the models", registry=self.registry)
        self.problems = Counter(
            "fashioniq_problems", "Error answers by code", ["code"], registry=self.registry
        )
        self.turns = Counter("fashioniq_turns", "Turns answered", ["category"], registry=self.registry)
        self.waited = Counter(
            "fashioniq_events_waited",
            "Events that had to wait for the database, and what became of them",
            ["outcome"],
            registry=self.registry,
        )

    def add_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered, also one that was refused before any work."""
        self.seconds.labels(method if method in METHODS else "other", route, status).observe(seconds)

    def text(self) -> bytes:
        """All measures in the text format of Prometheus."""
        return generate_latest(self.registry)

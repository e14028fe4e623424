"""Limits on calls that have none of their own."""

import threading

import pytest

from fashioniq.files import UserError
from fashioniq.waiting import within
from tests.waiting import LIMIT


def test_a_call_within_its_limit_returns_or_raises():
    def fail():
        raise TimeoutError("its own")

    assert within(LIMIT, lambda: 3, "late") == 3
    with pytest.raises(TimeoutError, match="its own"):
        within(LIMIT, fail, "late")


def test_a_call_beyond_its_limit_is_left_with_an_error():
    go_on = threading.Event()
    with pytest.raises(UserError, match="the cluster is gone"):
        within(0.01, lambda: go_on.wait(LIMIT), "the cluster is gone")
    go_on.set()


def test_a_ray_cluster_without_workers_is_given_up(monkeypatch):
    pytest.importorskip("ray.data", reason="no Ray: pip install '.[scale]'")
    from fashioniq.features import ray_workers

    go_on = threading.Event()

    def rows():
        yield {"part": b"0"}
        go_on.wait(LIMIT)

    coming = ray_workers._coming(rows())
    assert next(coming) == {"part": b"0"}
    monkeypatch.setattr(ray_workers, "NEXT", 0.01)
    with pytest.raises(UserError, match=r"completed no part .* `ray status`"):
        next(coming)
    go_on.set()
    assert list(ray_workers._coming(iter([]))) == []

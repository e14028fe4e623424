"""The cache of generated pictures."""

import json
import threading

import numpy as np
import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators import cache
from fashioniq.generators.cache import Cached
from fashioniq.generators.pictures import Generated, PictureRequest
from tests.waiting import LIMIT, joined

REQUESTS = [PictureRequest("red", 1), PictureRequest("red", 2), PictureRequest("blue \ud83d", 1)]


def noise(number):
    pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


class Counting:
    """Makes another picture at each call, as a server without seeds does."""

    def __init__(self, status="ok", **identity):
        self.identity, self.status, self.asked = {"backend": "counting", **identity}, status, []

    def generate(self, requests):
        made = []
        for request in requests:
            self.asked.append(request)
            picture = noise(len(self.asked)) if self.status in ("ok", "wrong size") else None
            made.append(Generated(picture, self.status, request.seed, "sent", "revised", 3.0, "reason"))
        return made


def plain(found):
    return [
        one._replace(picture=one.picture and np.asarray(one.picture).tolist(), seconds=0) for one in found
    ]


def test_no_picture_is_generated_twice(tmp_path):
    generator = Counting()
    first = Cached(generator, tmp_path)
    made = first.generate([*REQUESTS, REQUESTS[0]])
    assert generator.asked == REQUESTS
    assert plain(made[:1]) == plain(made[3:])
    second = Cached(Counting(), tmp_path)
    found = second.generate(REQUESTS[::-1])
    assert second.generator.asked == []
    assert plain(found) == plain(made[2::-1])
    assert [one.seconds for one in found] == [0, 0, 0] and made[0].seconds == 3.0


def test_another_prompt_seed_or_generator_is_another_picture(tmp_path):
    Cached(Counting(), tmp_path).generate(REQUESTS[:1])
    for request, identity in (
        (REQUESTS[1], {}),
        (REQUESTS[2], {}),
        (REQUESTS[0], {"steps": 2}),
    ):
        cached = Cached(Counting(**identity), tmp_path)
        assert cached.identity == cached.generator.identity
        cached.generate([request])
        assert cached.generator.asked == [request]


@pytest.mark.parametrize("status", ["blocked", "black"])
def test_refusals_are_kept_for_a_day(tmp_path, monkeypatch, status):
    now = 1000.0
    monkeypatch.setattr(cache, "time", lambda: now)
    generator = Counting(status)
    made = Cached(generator, tmp_path).generate(REQUESTS[:1])
    now += 24 * 3600
    found = Cached(generator, tmp_path).generate(REQUESTS[:1])
    assert plain(found) == plain(made) and found[0].status == status and len(generator.asked) == 1
    now += 1
    generator.status = "ok"
    assert Cached(generator, tmp_path).generate(REQUESTS[:1])[0].status == "ok"
    now += 10 * 365 * 24 * 3600
    assert Cached(generator, tmp_path).generate(REQUESTS[:1])[0].status == "ok" and len(generator.asked) == 2


@pytest.mark.parametrize(("status", "kept"), [("timeout", False), ("error", False), ("wrong size", True)])
def test_failures_that_may_pass_are_not_kept(tmp_path, status, kept):
    generator = Counting(status)
    for _ in range(2):
        (one,) = Cached(generator, tmp_path).generate(REQUESTS[:1])
        assert (one.status, one.reason, one.picture is not None) == (status, "reason", kept)
    assert len(generator.asked) == (1 if kept else 2)


def remove(path):
    path.unlink()


def cut(path):
    path.write_bytes(path.read_bytes()[:40])


def other_picture(path):
    noise(99).save(path)


def other_type(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed": "x"}))


def other_status(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "fine"}))


def no_picture(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "checksum": None}))


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [(remove, "png"), (cut, "png"), (other_picture, "png")]
    + [(damage, "json") for damage in (remove, cut, other_type, other_status, no_picture)],
)
def test_a_damaged_entry_is_generated_again(tmp_path, damage, suffix):
    generator = Counting()
    Cached(generator, tmp_path).generate(REQUESTS[:1])
    (path,) = tmp_path.rglob(f"*.{suffix}")
    damage(path)
    again = Cached(generator, tmp_path).generate(REQUESTS[:1])
    assert len(generator.asked) == 2
    assert plain(Cached(generator, tmp_path).generate(REQUESTS[:1])) == plain(again)
    assert len(generator.asked) == 2


def test_a_kill_between_the_two_files_leaves_no_wrong_entry(tmp_path, monkeypatch):
    generator = Counting()
    with monkeypatch.context() as patched:
        patched.setattr(cache, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Cached(generator, tmp_path).generate(REQUESTS[:1])
    assert [path.suffix for path in tmp_path.rglob("*.*")] == [".png"]
    (again,) = Cached(generator, tmp_path).generate(REQUESTS[:1])
    assert len(generator.asked) == 2 and np.array_equal(np.asarray(again.picture), np.asarray(noise(2)))


def test_pictures_made_before_a_failure_are_kept(tmp_path, monkeypatch):
    class Failing(Counting):
        def generate(self, requests):
            if len(self.asked) >= 4:
                raise UserError("no more")
            return super().generate(requests)

    monkeypatch.setattr(cache, "AT_ONCE", 2)
    requests = [PictureRequest("red", seed) for seed in range(8)]
    with pytest.raises(UserError):
        Cached(Failing(), tmp_path).generate(requests)
    rest = Counting()
    Cached(rest, tmp_path).generate(requests)
    assert rest.asked == requests[4:]


def test_of_two_that_generate_the_same_picture_both_return_the_first(tmp_path):
    together = threading.Barrier(2)

    class Slow(Counting):
        def generate(self, requests):
            together.wait(LIMIT)  # both have found nothing
            return super().generate(requests)

    found = {}

    def run(number):
        generator = Slow()
        generator.asked = [None] * 10 * number  # makes other pictures
        found[number] = Cached(generator, tmp_path).generate(REQUESTS[:1])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert plain(found[0]) == plain(found[1]) == plain(Cached(Counting(), tmp_path).generate(REQUESTS[:1]))


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_generated(tmp_path):
    (tmp_path / "file").write_text("")
    generator = Counting()
    with pytest.raises(UserError, match="cannot write"):
        Cached(generator, tmp_path / "file" / "cache").generate(REQUESTS)
    assert generator.asked == []


def test_an_entry_of_another_request_is_not_used(tmp_path):
    """Both files of an entry agree with each other, but lie in the place of another one."""
    Cached(Counting(), tmp_path).generate(REQUESTS)
    first, *others = sorted(tmp_path.rglob("*.json"))
    for other in others:
        for suffix in (".json", ".png"):
            other.with_suffix(suffix).write_bytes(first.with_suffix(suffix).read_bytes())
    again = Cached(Counting(), tmp_path)
    again.generate(REQUESTS)
    assert len(again.generator.asked) == 2

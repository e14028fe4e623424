import numpy as np
import pytest
from PIL import Image

from fashioniq.prepare import similar
from fashioniq.prepare.similar import Look, copies, look_of


def photo(seed, side=224):
    """Smooth blots of colour, as unlike as photos of different things are."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def look(tmp_path, image, **options):
    image.save(tmp_path / "a.jpg", **options)
    return look_of(tmp_path / "a.jpg")


def plain_looks(hashes, colours):
    return [
        Look(np.uint64(bits), np.full(192, colour, dtype=np.uint8))
        for bits, colour in zip(hashes, colours, strict=True)
    ]


def test_a_copy_is_found_when_it_was_resized_and_compressed_again(tmp_path):
    one = [photo(1), photo(1).resize((112, 112)), photo(1).resize((300, 340))]
    looks = [
        look(tmp_path, photo(2)),
        *(look(tmp_path, image, quality=50) for image in one),
        look(tmp_path, photo(3)),
    ]
    assert copies(looks) == [[1, 2, 3]]


def test_the_same_cut_in_another_colour_is_no_copy(tmp_path):
    red, blue = (Image.new("RGB", (96, 96), "white") for _ in range(2))
    red.paste((180, 30, 30), (30, 20, 70, 80))
    blue.paste((30, 30, 180), (30, 20, 70, 80))
    looks = [look(tmp_path, red), look(tmp_path, blue)]
    assert (
        np.bitwise_count(looks[0].hash ^ looks[1].hash) <= similar.MOST_BITS
    )  # the hash alone would take them for one
    assert copies(looks) == []


def test_another_cut_in_the_same_colours_is_no_copy():
    assert copies(plain_looks([0b0, 0b11111], [7, 7])) == []
    assert copies(plain_looks([0b0, 0b1111], [7, 7])) == [[0, 1]]


def test_a_copy_of_a_copy_is_of_the_group():
    assert copies(plain_looks([0b11111111, 0b0, 0b1111, 0b11111 << 50], [7, 7, 7, 7])) == [
        [0, 1, 2]
    ]  # 2 is near both others


def test_groups_do_not_depend_on_the_order():
    random = np.random.default_rng(0)
    looks = plain_looks(random.integers(0, 256, 200, dtype=np.uint64), random.integers(0, 200, 200))
    order = random.permutation(len(looks))
    again = copies([looks[place] for place in order])
    assert (
        {frozenset(order[group].tolist()) for group in again}
        == {frozenset(group) for group in copies(looks)}
        != set()
    )


def test_grouping_equals_comparing_every_pair():
    random = np.random.default_rng(1)
    looks = plain_looks(random.integers(0, 2**12, 150, dtype=np.uint64), random.integers(0, 20, 150))
    group_of = list(range(len(looks)))
    for one in range(len(looks)):
        for other in range(one):
            bits = int(looks[one].hash ^ looks[other].hash).bit_count()
            colour = np.abs(looks[one].colours_D.astype(int) - looks[other].colours_D).mean()
            if bits <= similar.MOST_BITS and colour <= similar.MOST_COLOUR:
                joined = {group_of[one], group_of[other]}
                group_of = [min(joined) if group in joined else group for group in group_of]
    groups = [[place for place, of in enumerate(group_of) if of == group] for group in set(group_of)]
    assert sorted(copies(looks)) == sorted(group for group in groups if len(group) > 1) != []


def test_no_pictures_have_no_copies():
    assert copies([]) == []


def test_of_photos_of_a_shop_only_those_of_one_garment_are_taken_for_copies(shared):
    """Many are of plain shirts on one model: the hash alone would take hundreds of them for one."""
    folder = shared / "myntra" / "img224" / "shirt"
    if not folder.is_dir():
        pytest.skip(f"no photos at {folder}")
    looks = [look_of(path) for path in sorted(folder.glob("*.jpg"))[:1000]]
    exact = {}
    for place, one in enumerate(looks):
        exact.setdefault((int(one.hash), one.colours_D.tobytes()), []).append(place)
    assert copies(looks) == [group for group in exact.values() if len(group) > 1] != []

import resource
import sys
import time

import numpy as np
import pytest
from PIL import Image

from fashioniq.data.catalog import Catalog
from fashioniq.data.deepfashion import read_deepfashion
from fashioniq.data.images import UnreadableImage
from fashioniq.data.labelled import NO, UNKNOWN, YES, LabeledPhotos, LabelledSplits, labelled_products
from fashioniq.data.photos import Photo, load_photo
from fashioniq.files import UserError

WORDS = [("a-line", 3), ("abstract chevron", 1), ("zip-up", 4)]
LABELS = [
    ("img/A_Dress/img_00000001.jpg", [1, -1, 0]),
    ("img/A_Dress/img_00000002.jpg", [-1, 1, 1]),
    ("img/B/img_00000001.jpg", [0, 0, -1]),
]
PARTITION = [
    (LABELS[0][0], "train"),
    (LABELS[1][0], "val"),
    (LABELS[2][0], "train"),
    ("img/C/1.jpg", "test"),
    ("img/C/2.jpg", "val"),
]
BOXES = [(LABELS[0][0], [72, 79, 232, 273]), ("img/C/1.jpg", [1, 2, 3, 4])]


def table(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([str(len(rows)), header, *rows]) + "\n")


def write_benchmark(root, anno="Anno", evaluation="Eval"):
    """The four files, spaced as the released ones are."""
    table(
        root / anno / "list_attr_cloth.txt",
        "attribute_name  attribute_type",
        [f"{word:28} {kind}" for word, kind in WORDS],
    )
    rows = [f"{name:40} " + " ".join(f"{value:2}" for value in values) for name, values in LABELS]
    table(root / anno / "list_attr_img.txt", "image_name  attribute_labels", rows)
    table(
        root / anno / "list_bbox.txt",
        "image_name  x_1  y_1  x_2  y_2",
        [f"{name:40} " + "  ".join(map(str, box)) for name, box in BOXES],
    )
    table(
        root / evaluation / "list_eval_partition.txt",
        "image_name  evaluation_status",
        [f"{name:40} {split}" for name, split in PARTITION],
    )
    return root


@pytest.fixture
def benchmark(tmp_path):
    return write_benchmark(tmp_path / "deepfashion")


@pytest.mark.parametrize(
    "folders", [(".", "."), ("Anno", "Eval"), ("Anno_coarse", "Eval")], ids=lambda folders: folders[0]
)
def test_the_released_layouts_are_read(tmp_path, folders):
    read = read_deepfashion(write_benchmark(tmp_path, *folders))
    assert read.words == ["a-line", "abstract chevron", "zip-up"] and read.types == [
        "shape",
        "texture",
        "part",
    ]
    assert read.train.photos == [
        Photo(tmp_path / LABELS[0][0], (72, 79, 232, 273)),
        Photo(tmp_path / LABELS[2][0]),
    ]
    assert read.train.labels_NA.dtype == np.int8
    assert read.train.labels_NA.tolist() == [[YES, NO, UNKNOWN], [UNKNOWN, UNKNOWN, NO]]
    assert read.val.labels_NA.tolist() == [[NO, YES, YES]]
    assert (read.train.asked, read.val.asked) == (2, 2)  # one picture of val has no labels


def test_pictures_may_lie_in_the_folder_img(benchmark):
    (benchmark / "Img" / "img").mkdir(parents=True)
    assert read_deepfashion(benchmark).val.photos[0].path == benchmark / "Img" / LABELS[1][0]


def test_boxes_may_be_left_out(benchmark):
    (benchmark / "Anno/list_bbox.txt").unlink()
    assert all(photo.box is None for photo in read_deepfashion(benchmark).train.photos)


@pytest.mark.parametrize(
    "name", ["Anno/list_attr_cloth.txt", "Anno/list_attr_img.txt", "Eval/list_eval_partition.txt"]
)
def test_a_missing_file_is_named(benchmark, name):
    (benchmark / name).unlink()
    with pytest.raises(UserError, match=name.split("/")[1]):
        read_deepfashion(benchmark)


@pytest.mark.parametrize(
    "name",
    [
        "Anno/list_attr_cloth.txt",
        "Anno/list_attr_img.txt",
        "Anno/list_bbox.txt",
        "Eval/list_eval_partition.txt",
    ],
)
@pytest.mark.parametrize("change", ["cut", "no count", "empty", "odd row"])
def test_a_malformed_file_is_told_in_one_line(benchmark, name, change):
    lines = (benchmark / name).read_text().splitlines()
    changed = {
        "cut": lines[:-1],
        "no count": lines[1:],
        "empty": [],
        "odd row": [*lines[:3], "odd", *lines[4:]],
    }[change]
    (benchmark / name).write_text("\n".join(changed))
    with pytest.raises(UserError) as told:
        read_deepfashion(benchmark)
    place = {"cut": "rows", "no count": "line 1", "empty": "line 1", "odd row": "line 4"}[change]
    assert (
        str(benchmark / name) in str(told.value) and place in str(told.value) and "\n" not in str(told.value)
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Anno/list_attr_cloth.txt", "abstract chevron             1", "abstract chevron             6"),
        ("Anno/list_attr_cloth.txt", "abstract chevron ", "a-line "),
        ("Anno/list_attr_img.txt", "-1  1  1", "-1  1"),
        ("Anno/list_attr_img.txt", "-1  1  1", "-1  1  1  1"),
        ("Anno/list_attr_img.txt", "-1  1  1", "-1  1  257"),
        ("Anno/list_attr_img.txt", "-1  1  1", "-1  1  1.5"),
        ("Anno/list_attr_img.txt", "-1  1  1", "-1  1  x"),
        ("Anno/list_attr_img.txt", "-1  1  1", ""),
        ("Anno/list_attr_img.txt", LABELS[2][0], LABELS[0][0]),
        ("Anno/list_bbox.txt", "72  79  232  273", "72  79  232"),
        ("Anno/list_bbox.txt", "72  79  232  273", "72  79  232  x"),
        ("Eval/list_eval_partition.txt", " val", " validation"),
        ("Eval/list_eval_partition.txt", LABELS[1][0], LABELS[0][0]),
    ],
)
def test_an_odd_value_is_refused_with_its_line(benchmark, name, old, new):
    before = (benchmark / name).read_text()
    assert old in before
    (benchmark / name).write_text(before.replace(old, new, 1))
    with pytest.raises(UserError, match=r"line [345]: expected"):
        read_deepfashion(benchmark)


def test_a_split_without_labels_is_refused(benchmark):
    path = benchmark / "Eval/list_eval_partition.txt"
    path.write_text(path.read_text().replace(" val", " test"))
    with pytest.raises(UserError, match="any of the 0 val"):
        read_deepfashion(benchmark)


def test_the_benchmarks_own_words_are_read(shared, benchmark):
    words = (shared / "word_vectors/deepfashion_list_attr_cloth.txt").read_text()
    (benchmark / "Anno/list_attr_cloth.txt").write_text(words)
    path = benchmark / "Anno/list_attr_img.txt"
    table(
        path,
        "image_name  attribute_labels",
        [f"{name}  " + " ".join(["-1"] * 999 + ["1"]) for name, _ in LABELS],
    )
    read = read_deepfashion(benchmark)
    assert len(read.words) == 1000 and read.words[-1] == "zippered" and read.types[-1] == "part"
    assert [read.types.count(kind) for kind in ("texture", "fabric", "shape", "part", "style")] == [
        156,
        218,
        180,
        216,
        230,
    ]


def test_many_rows_are_read_fast_and_lean(tmp_path):
    """Of 10,000 rows 10 MB of labels are kept; the 289,222 of the benchmark take half a minute or so at this
    rate.
    """
    rows, words = 10_000, 1000
    root = write_benchmark(tmp_path)
    table(root / "Anno/list_attr_cloth.txt", "", [f"word{number} 1" for number in range(words)])
    values = " ".join(["-1", "1", "0", "-1"] * (words // 4))
    table(root / "Anno/list_attr_img.txt", "", [f"img/{number}.jpg {values}" for number in range(rows)])
    table(
        root / "Eval/list_eval_partition.txt",
        "",
        [f"img/{number}.jpg {'val' if number % 5 == 0 else 'train'}" for number in range(rows)],
    )
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    read = read_deepfashion(root)
    assert read.train.labels_NA.shape == (8000, words) and read.val.labels_NA.shape == (2000, words)
    assert time.process_time() - start < 5
    if sys.platform == "linux":  # elsewhere it is counted in bytes
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


# any source


def test_rare_words_are_left_out_with_their_columns():
    train = LabeledPhotos(
        [Photo("a"), Photo("b")], np.array([[YES, NO, YES], [UNKNOWN, NO, YES]], np.int8), 2
    )
    splits = LabelledSplits(train, train, ["x", "y", "z"], ["shape", "part", "style"])
    kept = splits.carried_by(1)
    assert (
        kept.words == ["x", "z"]
        and kept.types == ["shape", "style"]
        and kept.val.labels_NA.tolist() == [[YES, YES], [UNKNOWN, YES]]
    )
    assert splits.carried_by(2).words == ["z"]
    with pytest.raises(UserError, match="--min-count"):
        splits.carried_by(3)


def test_products_of_a_catalog_have_labels_and_the_commonest_type_of_each_word(sample):
    catalog = Catalog(sample, "dresses")
    name = catalog.ids("train")[0]
    word = "oddly"
    for place, kind in enumerate([1, 3, 3]):
        catalog.labels[catalog.ids("train")[place]][kind].append(word)
    del catalog.images[name]
    read = labelled_products([catalog], 1)
    assert read.types[read.words.index(word)] == "shape" and set(read.types) <= {
        "texture",
        "fabric",
        "shape",
        "part",
        "style",
    }
    assert len(read.train.photos) == read.train.asked - 1 and set(np.unique(read.train.labels_NA)) == {
        NO,
        YES,
    }
    assert read.train.labels_NA[:, read.words.index(word)].sum() == 2  # the third has no picture


def test_a_picture_is_cropped_to_what_its_box_leaves_of_it(tmp_path):
    image = Image.new("RGB", (40, 30), "white")
    image.paste("red", (10, 5, 30, 25))
    image.save(tmp_path / "a.png")
    cropped, possible = load_photo(Photo(tmp_path / "a.png", (10, 5, 30, 25)))
    assert possible and cropped.size == (20, 20) and cropped.getcolors() == [(400, (255, 0, 0))]
    assert load_photo(Photo(tmp_path / "a.png", (-5, 10, 99, 99)))[0].size == (40, 20)
    assert load_photo(Photo(tmp_path / "a.png"))[0].size == (40, 30)


@pytest.mark.parametrize("box", [(30, 5, 10, 25), (50, 5, 90, 25), (10, 5, 17, 25), (0, 0, 0, 0)])
def test_a_picture_with_an_impossible_box_is_taken_whole(tmp_path, box):
    Image.new("RGB", (40, 30)).save(tmp_path / "a.png")
    image, possible = load_photo(Photo(tmp_path / "a.png", box))
    assert not possible and image.size == (40, 30)


def test_a_boxed_picture_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UnreadableImage, match="no such file"):
        load_photo(Photo(tmp_path / "a.png", (0, 0, 20, 20)))

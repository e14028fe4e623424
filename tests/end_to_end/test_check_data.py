import json
from shutil import copytree

import pytest

from fashioniq.cli import main


@pytest.fixture
def check(capsys, project):
    """Run check-data; return its exit code and the lines that it prints to both streams."""

    def check(**options):
        capsys.readouterr()
        code = main(project.arguments("check-data", workers=0, **options))
        out, err = capsys.readouterr()
        return code, out.splitlines(), err.splitlines()

    return check


@pytest.fixture
def catalog(sample, tmp_path):
    """A copy of the sample without its feature stores, to be damaged."""
    return copytree(sample, tmp_path / "catalog", ignore=lambda folder, names: {"features"} & set(names))


def test_a_drawn_sample_is_clean_though_its_garments_are_alike(check, catalog):
    code, out, err = check(data=catalog)
    assert (code, err) == (0, []) and out[-1] == f"{catalog} is clean"
    assert ["pictures", "36", "12", "12"] in [line.split() for line in out]
    assert [line for line in out if "finding" in line] == []


def test_findings_are_a_line_each_with_three_examples_and_counted_at_the_end(check, catalog, tmp_path):
    files = sorted((catalog / "images/shirt").iterdir())
    for path in files[:5]:
        path.unlink()
    files[5].write_text("no picture")
    (catalog / "captions/cap.dress.val.json").write_text("{")
    code, out, err = check(data=catalog, report=tmp_path / "report.json")
    assert code == 1 and err == [] and out[-1] == "3 findings in dresses, shirts"
    lines = [line for line in out if line.startswith("  finding: ")]
    names = [path.stem for path in files]
    assert lines[0].startswith(
        "  finding: files that cannot be read: 1 (the file cap.dress.val.json is not valid JSON"
    )
    assert lines[1] == f"  finding: products without a picture: 5 ({'; '.join(names[:3])}; …)"
    assert lines[2].startswith(f"  finding: pictures that cannot be read: 1 ({files[5].name}: ")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["shirts"]["findings"]["products without a picture"] == names[:5]
    assert report["dresses"]["counts"]["pairs"][1] is None and report["tops"]["findings"] == {}


def test_a_single_finding_is_spoken_of_as_one(check, catalog):
    (catalog / "images/dress/X.jpg").write_text("")
    code, out, _ = check(data=catalog, category="dress")
    assert code == 1 and out[-1] == "1 finding in dresses"


def test_an_unusable_category_is_an_error_after_the_others_were_told_of(check, catalog, tmp_path):
    (catalog / "image_splits/split.shirt.train.json").unlink()
    code, out, err = check(data=catalog, report=tmp_path / "report.json")
    assert (
        code == 2 and len(err) == 1 and err[0].startswith("error: ") and "the train split of shirts" in err[0]
    )
    assert any(line.startswith("tops") for line in out) and (tmp_path / "report.json").exists()
    assert check(data=catalog, category="tops")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"category": "shoes"}, "no category 'shoes'"),
        ({"images": "nowhere"}, "there is no folder of pictures nowhere"),
    ],
    ids=["category", "images"],
)
def test_what_is_not_there_is_an_error(check, sample, options, message):
    code, out, err = check(data=sample, **options)
    assert code == 2 and out == [] and len(err) == 1 and err[0].startswith(f"error: {message}")


def test_a_folder_that_is_not_there_is_an_error(check, tmp_path):
    code, out, err = check(data=tmp_path / "nowhere")
    assert code == 2 and out == [] and len(err) == 1 and "give a Fashion IQ folder with --data" in err[0]


@pytest.mark.parametrize("place", ["data", "images", "link"])
def test_a_report_is_not_written_into_what_is_checked(check, catalog, tmp_path, place):
    (tmp_path / "others").mkdir()
    (tmp_path / "link").symlink_to(catalog)
    folder = {"data": catalog / "captions", "images": tmp_path / "others", "link": tmp_path / "link"}[place]
    before = sorted(folder.iterdir())
    code, out, err = check(data=catalog, images=tmp_path / "others", report=folder / "report.json")
    assert code == 2 and out == [] and "--report" in err[0] and sorted(folder.iterdir()) == before


def test_an_odd_id_cannot_break_the_lines_or_the_report(check, catalog, tmp_path):
    path = catalog / "titles/dress.train.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "two\nlines": {}, "\ud800": {}}))
    code, out, _ = check(data=catalog, category="dresses", report=tmp_path / "report.json")
    line = r"  finding: rows of ids in no split: 2 (dress.train.json: two\nlines; dress.train.json: \ud800)"
    assert code == 1 and line in out and json.loads((tmp_path / "report.json").read_text())


def test_a_damaged_or_meaningless_feature_store_is_a_finding(check, catalog, project):
    store = catalog / "features" / "dress"
    project.run("extract-features", data=catalog, category="dresses", **project.pictures)
    code, out, _ = check(data=catalog, category="dresses")
    assert code == 1 and f"feature stores of an encoder with random weights: 1 ({store})" in "\n".join(out)
    content = bytearray((store / "features.npy").read_bytes())
    content[-2] ^= 1
    (store / "features.npy").write_bytes(bytes(content))
    code, out, _ = check(data=catalog, category="dresses")
    assert code == 1 and "feature stores that are damaged: 1" in "\n".join(out)

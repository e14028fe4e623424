import pytest
from matplotlib.axes import Axes
from PIL import Image

from fashioniq.report.training_plots import read_epochs, write_attribute_curves, write_captioner_curves


def rows_of(epochs, *types):
    figures = {"train_loss": 0.3, "val_loss": 0.2, "val_mAP": 50.0} | {
        f"val_mAP_{kind}": 40.0 for kind in types
    }
    return [{"epoch": float(epoch), **figures} for epoch in range(epochs)]


@pytest.mark.parametrize("rows", [rows_of(1), rows_of(3, "texture", "style")], ids=["one epoch", "three"])
def test_curves_are_drawn_of_any_number_of_epochs_and_types(tmp_path, rows):
    write_attribute_curves(tmp_path / "curves.png", rows, 12.5)
    with Image.open(tmp_path / "curves.png") as image:
        assert image.format == "PNG" and image.width > 1000
        assert len(image.convert("RGB").getcolors(10**6)) > 10


def test_the_same_figures_make_the_same_curves(tmp_path):
    for name in ("a.png", "b.png"):
        write_attribute_curves(tmp_path / name, rows_of(2, "part"), 10.0)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("true", [{}, {"val_true": 60.0}], ids=["without labels", "with labels"])
def test_curves_of_a_captioner_have_a_line_more_with_labels_and_mark_the_kept_epoch(
    tmp_path, true, monkeypatch
):
    rows = [
        {
            "epoch": float(epoch),
            "val_BLEU-4": 5.0 + epoch,
            "val_P": 80.0 - epoch,
            "val_R@10": 20.0,
            "val_score": -20.0 if epoch == 0 else 80.0 - epoch,
            **true,
        }
        for epoch in range(3)
    ]
    kept = []
    monkeypatch.setattr(Axes, "axvline", lambda axes, x, **given: kept.append((x, given["label"])))
    write_captioner_curves(tmp_path / "curves.png", rows)
    assert kept == [(1.0, "kept  1")] * 2
    with Image.open(tmp_path / "curves.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(10**6)}
    assert (15, 117, 101) in colours if true else (15, 117, 101) not in colours
    assert {(42, 98, 196), (184, 66, 15)} <= colours


def test_the_lines_of_metrics_are_numbers(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,val_BLEU-4,val_P\n0.0,2.5,\n1.0,1.5,80.0\n")
    rows = read_epochs(tmp_path)
    assert rows == [{"epoch": 0.0, "val_BLEU-4": 2.5}, {"epoch": 1.0, "val_BLEU-4": 1.5, "val_P": 80.0}]
    write_captioner_curves(tmp_path / "curves.png", rows)

"""`fashioniq export`."""

from fashioniq.config import Export


def run(settings: Export) -> None:
    """Write the files, and print what was checked."""
    out = settings.folder()
    from fashioniq.exports.onnx import export_onnx

    found = export_onnx(settings.run, out)
    print(
        f"largest difference from the model {found.largest:.1e}, "
        f"{found.ranks - found.moved} of {found.ranks} ranks equal"
    )
    print(f"files in {out}")

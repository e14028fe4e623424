"""`fashioniq export`."""

from pathlib import Path

from fashioniq.config import Export


def run(settings: Export) -> Path:
    """Write the files of an export, and print how they were checked."""
    out = settings.folder()
    if settings.to == "huggingface":
        from fashioniq.exports.huggingface import export_huggingface

        count = export_huggingface(settings.run, out)
        print(
            f"model card with {count} evaluations in {out / 'README.md'}; read it before you publish the folder"
        )
    else:
        from fashioniq.exports.onnx import export_onnx

        found = export_onnx(settings.run, out)
        print(
            f"largest difference from the model {found.largest:.1e}, "
            f"{found.ranks - found.moved} of {found.ranks} ranks equal"
        )
    print(f"files in {out}")
    return out

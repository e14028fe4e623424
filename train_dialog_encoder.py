"""The command `fashioniq train-dialog-encoder` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-dialog-encoder", *sys.argv[1:]]))

"""Script for the command `fashioniq train-dialog-encoder`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-dialog-encoder", *sys.argv[1:]]))

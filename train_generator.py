"""Script for the command `fashioniq train-generator`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-generator", *sys.argv[1:]]))

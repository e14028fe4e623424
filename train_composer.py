"""Script for the command `fashioniq train-composer`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-composer", *sys.argv[1:]]))

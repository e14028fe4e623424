"""Script for the command `fashioniq train-linear`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-linear", *sys.argv[1:]]))

"""Script for the command `fashioniq train-attributes`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-attributes", *sys.argv[1:]]))

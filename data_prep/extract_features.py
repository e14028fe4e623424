"""Script for the command `fashioniq extract-features`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["extract-features", *sys.argv[1:]]))

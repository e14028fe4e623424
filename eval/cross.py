"""Script for the command `fashioniq cross`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["cross", *sys.argv[1:]]))

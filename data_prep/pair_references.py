"""Script for the command `fashioniq pair-references`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["pair-references", *sys.argv[1:]]))

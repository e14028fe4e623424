"""Script for the command `fashioniq write-queries`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["write-queries", *sys.argv[1:]]))

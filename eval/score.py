"""Script for the command `fashioniq score`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["score", *sys.argv[1:]]))

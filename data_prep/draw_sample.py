"""Script for the command `fashioniq draw-sample`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["draw-sample", *sys.argv[1:]]))

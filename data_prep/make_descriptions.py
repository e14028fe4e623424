"""Script for the command `fashioniq make-descriptions`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["make-descriptions", *sys.argv[1:]]))

"""Script for the command `fashioniq make-conversations`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["make-conversations", *sys.argv[1:]]))

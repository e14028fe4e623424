"""Script for the command `fashioniq make-visual-feedback`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["make-visual-feedback", *sys.argv[1:]]))

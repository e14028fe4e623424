"""Script for the command `fashioniq make-dialogues`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["make-dialogues", *sys.argv[1:]]))

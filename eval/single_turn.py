"""Script for the command `fashioniq eval-single-turn`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-single-turn", *sys.argv[1:]]))

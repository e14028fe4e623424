"""Script for the command `fashioniq eval-requests`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-requests", *sys.argv[1:]]))

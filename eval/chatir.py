"""Script for the command `fashioniq eval-chatir`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-chatir", *sys.argv[1:]]))

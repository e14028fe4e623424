"""Script for the command `fashioniq eval-captions`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-captions", *sys.argv[1:]]))

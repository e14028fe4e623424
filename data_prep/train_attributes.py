"""The command `fashioniq train-attributes` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-attributes", *sys.argv[1:]]))

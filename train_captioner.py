"""The command `fashioniq train-captioner` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-captioner", *sys.argv[1:]]))

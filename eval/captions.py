"""The command `fashioniq eval-captions` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-captions", *sys.argv[1:]]))

"""The command `fashioniq score` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["score", *sys.argv[1:]]))

"""The command `fashioniq eval-single-turn` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-single-turn", *sys.argv[1:]]))

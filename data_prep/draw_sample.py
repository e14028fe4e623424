"""The command `fashioniq draw-sample` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["draw-sample", *sys.argv[1:]]))

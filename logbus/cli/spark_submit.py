"""The script that ``spark-submit`` runs: ``logbus pipeline``."""

from __future__ import annotations

import sys

from logbus.cli.app import run_app

if __name__ == "__main__":
    raise SystemExit(run_app(["pipeline", *sys.argv[1:]]))

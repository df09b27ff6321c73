"""`python -m forebay.fabric`: what `forebay fabric` runs."""

from __future__ import annotations

import sys

from forebay.fabric.command import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m demo.tiers`."""

import sys

from demo.tiers.run import main

sys.exit(main())

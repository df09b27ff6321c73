"""`python -m demo`: the whole demonstration."""

import sys

from demo.run import main

sys.exit(main())

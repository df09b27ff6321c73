"""`python -m demo.fabric`: the fabric study in miniature."""

import sys

from demo.fabric.run import main

sys.exit(main())

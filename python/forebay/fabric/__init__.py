"""The fabric study: what storage traffic does to collectives and to the waits of training.

`forebay fabric allreduce` times all-reduces without and with I/O beside them, `forebay fabric train`
the stages of a real training loop; `forebay fabric data` makes the samples that both read and
`forebay fabric report` says what the records show. This package is what runs in each rank; it needs
torch. `docs/FABRIC.md` describes it.
"""

from __future__ import annotations


class FabricError(Exception):
    """A study that cannot go on; the text says what happened to what, and the way out."""

"""PyTorch face of Forebay: a map-style `Dataset` and a `Sampler` that resumes exactly.

    import forebay.torch as fb

    dataset = fb.Dataset("sair.forebay", root="/lustre/sair")
    sampler = fb.Sampler(dataset, seed=7)
    loader = fb.DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4)

`fb.DataLoader` is PyTorch's own that can also record what each iteration waited for; PyTorch's own
does as well. `fb.StepTimer` splits the iterations of any loop into their stages. `torch` is needed only by this package; the rest of `forebay` works without it.
"""

from __future__ import annotations

from forebay._plan import collectives
from forebay.torch.dataset import Dataset, SampleSource
from forebay.torch.loader import DataLoader
from forebay.torch.look_ahead import LookAhead
from forebay.torch.sampler import Sampler
from forebay.torch.timer import StepTimer

__all__ = [
    "DataLoader",
    "Dataset",
    "LookAhead",
    "SampleSource",
    "Sampler",
    "StepTimer",
    "collectives",
]

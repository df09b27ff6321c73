"""What all modules of cases use: the list of cases, data, and what h5py reads."""

import h5py
import numpy as np

CASES = {}
RANDOM = np.random.default_rng(7)


def case(make):
    CASES[make.__name__] = make
    return make


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("<f4")


def smooth(*shape):
    """Values that compress."""
    return (np.arange(np.prod(shape, dtype=int)) // 7 % 50).reshape(shape).astype("<i4")


def groups(path, keys, prefix="", fields=None):
    """What h5py reads from the groups of a file: one sample for each key."""
    samples = []
    with h5py.File(path, "r") as file:
        for key in keys:
            group = file[prefix + key]
            found = {}
            names = []
            group.visit(names.append)
            for name in sorted(n for n in names if isinstance(group[n], h5py.Dataset)):
                if fields is None or name in fields:
                    found[name] = np.asarray(group[name][...])
            samples.append((key, found))
    return samples


def row_samples(path, names):
    with h5py.File(path, "r") as file:
        arrays = {name: file[name][()] for name in names}
    rows = len(next(iter(arrays.values())))
    return [(None, {name: np.asarray(a[row]) for name, a in arrays.items()}) for row in range(rows)]


def low_level(group, name, shape, kind, set_up, chunk=None, data=None):
    """A data set made with settings that h5py's own interface does not have."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunk:
        plist.set_chunk(chunk)
    set_up(plist)
    space = h5py.h5s.create_simple(shape)
    made = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, plist))
    if data is not None:
        made[...] = data
    return made

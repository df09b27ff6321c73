"""Prints `golden_filters.txt`: chunks as h5py and hdf5plugin write them, one a line."""

import h5py
import hdf5plugin
import numpy as np


def stored(data, filters=None, **options):
    with h5py.File("golden", "w", driver="core", backing_store=False) as file:
        if filters is not None:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk(data.shape)
            filters(plist)
            kind = options.get("kind", h5py.h5t.py_create(data.dtype))
            space = h5py.h5s.create_simple(data.shape)
            made = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, plist))
            made[...] = data
        else:
            made = file.create_dataset("x", data=data, chunks=data.shape, **options)
        mask, raw = made.id.read_direct_chunk((0,) * data.ndim)
        assert mask == 0
        return raw.hex()


def main():
    steps = (np.arange(256) // 9 * 1000).astype("<i4")
    cubes = ((np.arange(64) ** 3) % 1009).astype("<u2")
    halves = (np.arange(40) * 0.25 - 3).astype("<f4")
    int17 = h5py.h5t.STD_I32LE.copy()
    int17.set_precision(17)
    print("zstd", stored(steps, **hdf5plugin.Zstd()))
    print("lz4", stored(steps, **hdf5plugin.LZ4()))
    for codec in ["blosclz", "lz4", "snappy", "zlib", "zstd"]:
        for shuffle in [0, 1, 2]:
            plugin = hdf5plugin.Blosc(cname=codec, clevel=5, shuffle=shuffle)
            print(f"blosc-{codec}-{shuffle}", stored(steps, **plugin))
    for codec in ["none", "lz4", "zstd"]:
        print(f"bitshuffle-{codec}", stored(steps, **hdf5plugin.Bitshuffle(cname=codec)))
    print("scale-offset-fill", stored(cubes, scaleoffset=0, fillvalue=8))
    print("scale-offset-big", stored(-cubes.astype(">i8"), scaleoffset=0))
    print("scale-offset-digits", stored(halves, scaleoffset=2))
    print("n-bit", stored(cubes.astype("<i4") - 500, lambda p: p.set_filter(5), kind=int17))
    for name, options in [
        ("predicted", h5py.h5z.SZIP_NN_OPTION_MASK),
        ("plain", h5py.h5z.SZIP_EC_OPTION_MASK),
    ]:
        print(f"szip-{name}-u2", stored(cubes, lambda p, o=options: p.set_szip(o, 8)))
        print(f"szip-{name}-i4", stored(steps[:64], lambda p, o=options: p.set_szip(o, 8)))


main()

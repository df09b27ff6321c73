"""Cases of storage: layouts, chunk indexes, filters."""

import zlib

import h5py
import hdf5plugin
import numpy as np
from hdf5_cases import RANDOM, case, floats, groups, low_level, smooth


def fill_with_filters(file):
    """Data sets of one group, with every filter chain that is read."""
    group = file.create_group("s")
    chains = {
        "plain": {},
        "deflate": {"compression": "gzip", "compression_opts": 6},
        "shuffle": {"shuffle": True},
        "lzf": {"compression": "lzf"},
        "fletcher": {"fletcher32": True},
        "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "lzf_all": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    }
    for name, options in chains.items():
        # Edge chunks are partial on both axes.
        group.create_dataset(f"{name}", data=smooth(37, 23), chunks=(8, 10), **options)
        group.create_dataset(f"{name}_noise", data=floats(37, 23), chunks=(16, 7), **options)
        group.create_dataset(
            f"{name}_grow", data=smooth(37, 23), chunks=(8, 10), maxshape=(None, 23), **options
        )
        group.create_dataset(
            f"{name}_grow_both",
            data=smooth(37, 23),
            chunks=(8, 10),
            maxshape=(None, None),
            **options,
        )
        group.create_dataset(f"{name}_one", data=smooth(9, 5), chunks=(9, 5), **options)
        sparse = group.create_dataset(
            f"{name}_sparse", (40, 30), ">i2", chunks=(8, 10), fillvalue=-3, **options
        )
        sparse[17:20, 5:12] = 7
        late = group.create_dataset(
            f"{name}_never", (40, 30), "<f4", chunks=(8, 10), fillvalue=1.5, **options
        )
        assert late.id.get_num_chunks() == 0
    shrunk = group.create_dataset(
        "shrunk", data=smooth(40, 30), chunks=(8, 10), maxshape=(None, None)
    )
    shrunk.resize((20, 11))
    many = group.create_dataset("many", (3000,), "<i4", chunks=(1,), maxshape=(None,))
    many[...] = np.arange(3000)
    many_fixed = group.create_dataset("many_fixed", (3000,), "<i4", chunks=(1,), compression="lzf")
    many_fixed[...] = np.arange(3000)


@case
def chunked_earliest(out):
    with h5py.File(out / "a.h5", "w", libver="earliest") as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_v108(out):
    with h5py.File(out / "a.h5", "w", libver=("v108", "v108")) as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_v110(out):
    with h5py.File(out / "a.h5", "w", libver=("v110", "v110")) as file:
        fill_with_filters(file)
    return groups(out / "a.h5", ["s"])


@case
def chunked_latest(out):
    with h5py.File(out / "a.h5", "w", libver="latest") as file:
        fill_with_filters(file)
        # Allocated at once and without filters: the implicit index.
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 4))
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((10, 10))
        made = h5py.h5d.create(file["s"].id, b"implicit", h5py.h5t.STD_I32LE, space, plist)
        h5py.Dataset(made)[...] = smooth(10, 10)
    return groups(out / "a.h5", ["s"])


@case
def filter_masks(out):
    """Chunks that say of themselves that a filter was not applied."""
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        data = smooth(32, 8)
        made = group.create_dataset(
            "x", data.shape, "<i4", chunks=(8, 8), compression="gzip", shuffle=True
        )
        made[0:8] = data[0:8]
        # Neither filter; then only the shuffle (filter 0) left out.
        made.id.write_direct_chunk((8, 0), data[8:16].tobytes(), filter_mask=0b11)
        made.id.write_direct_chunk((16, 0), zlib.compress(data[16:24].tobytes()), filter_mask=0b01)
        made[24:32] = data[24:32]
        assert (made[...] == data).all()
    return groups(out / "a.h5", ["s"])


def chains():
    """Every compression that hdf5plugin and HDF5 itself write, by name."""
    plugin = {
        "zstd": hdf5plugin.Zstd(),
        "zstd_19": hdf5plugin.Zstd(clevel=19),
        "lz4": hdf5plugin.LZ4(),
        "lz4_blocks": hdf5plugin.LZ4(nbytes=256),
        "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle_lz4": hdf5plugin.Bitshuffle(cname="lz4"),
        "bitshuffle_zstd": hdf5plugin.Bitshuffle(cname="zstd"),
        "bitshuffle_small": hdf5plugin.Bitshuffle(nelems=64, cname="lz4"),
    }
    for codec in ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]:
        for shuffle in [0, 1, 2]:
            name = f"blosc_{codec}_{shuffle}"
            plugin[name] = hdf5plugin.Blosc(cname=codec, clevel=5, shuffle=shuffle)
    plugin["zstd_more"] = {**hdf5plugin.Zstd(), "shuffle": True, "fletcher32": True}
    return plugin


@case
def plugins(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        for name, options in chains().items():
            for kind in ["<i2", ">f4", "<f8", "|u1"]:
                # One chunk is partial on both axes; the other way round, one holds it all.
                data = smooth(150, 90).astype(kind)
                made = f"{name}_{kind[1:]}"
                group.create_dataset(made, data=data, chunks=(64, 40), **options)
                group.create_dataset(f"{made}_one", data=data, chunks=(150, 90), **options)
            noise = RANDOM.standard_normal((150, 90))
            group.create_dataset(f"{name}_noise", data=noise, chunks=(37, 13), **options)
            few = np.arange(5).astype("<i4")
            group.create_dataset(f"{name}_few", data=few, chunks=(5,), **options)
    return groups(out / "a.h5", ["s"])


@case
def scale_offset(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        for kind in ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8"]:
            info = np.iinfo(kind)
            name = kind.replace("<", "l").replace(">", "b")
            narrow = (smooth(60, 20) - (0 if info.min == 0 else 20)).astype(kind)
            native = np.dtype(kind).newbyteorder("=")
            wide = RANDOM.integers(info.min, info.max, (60, 20), endpoint=True, dtype=native)
            constant = np.full((60, 20), 7, kind)
            for data, what in [(narrow, "narrow"), (wide, "wide"), (constant, "constant")]:
                for fill in [None, 3]:
                    group.create_dataset(
                        f"{name}_{what}_{fill}",
                        data=data.astype(kind),
                        dtype=kind,
                        chunks=(16, 20),
                        scaleoffset=0,
                        fillvalue=fill,
                        shuffle=True,
                        compression="lzf" if fill else None,
                    )
            group.create_dataset(
                f"{name}_twelve", data=narrow, dtype=kind, chunks=(16, 20), scaleoffset=6
            )
            if info.bits >= 32:
                group.create_dataset(
                    f"{name}_as_is", data=wide, dtype=kind, chunks=(16, 20), scaleoffset=info.bits
                )
            sparse = group.create_dataset(
                f"{name}_sparse", (60, 20), kind, chunks=(16, 20), scaleoffset=0, fillvalue=5
            )
            sparse[20:22] = narrow[20:22]
        for kind in ["<f4", ">f4", "<f8", ">f8"]:
            name = kind.replace("<", "l").replace(">", "b")
            for digits in [0, 1, 3]:
                for fill in [None, -1.5]:
                    group.create_dataset(
                        f"{name}_{digits}_{fill}",
                        data=(smooth(60, 20) * 0.37 - 5).astype(kind),
                        dtype=kind,
                        chunks=(16, 20),
                        scaleoffset=digits,
                        fillvalue=fill,
                    )
    return groups(out / "a.h5", ["s"])


@case
def n_bit(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        signed = smooth(50, 8) - 25
        for name, base, bits in [
            ("i1", h5py.h5t.STD_I8LE, 6),
            ("i2", h5py.h5t.STD_I16LE, 11),
            ("bi2", h5py.h5t.STD_I16BE, 9),
            ("i4", h5py.h5t.STD_I32LE, 17),
            ("bi4", h5py.h5t.STD_I32BE, 32),
            ("i8", h5py.h5t.STD_I64LE, 40),
            ("u4", h5py.h5t.STD_U32LE, 20),
        ]:
            kind = base.copy()
            kind.set_precision(bits)
            data = abs(signed) if name == "u4" else signed
            low_level(group, name, (50, 8), kind, lambda p: p.set_filter(5), (16, 8), data)
        low_level(
            group, "f4", (50, 8), h5py.h5t.IEEE_F32LE, lambda p: p.set_filter(5), (16, 8), signed
        )
        both = lambda p: (p.set_filter(5), p.set_deflate(4))  # noqa: E731
        low_level(group, "packed", (50, 8), kind, both, (16, 8), abs(signed))
    return groups(out / "a.h5", ["s"])


@case
def szip(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        for options in [h5py.h5z.SZIP_NN_OPTION_MASK, h5py.h5z.SZIP_EC_OPTION_MASK]:
            for block in [4, 8, 16, 32]:
                for name, kind in [
                    ("u1", h5py.h5t.STD_U8LE),
                    ("i2", h5py.h5t.STD_I16LE),
                    ("bi2", h5py.h5t.STD_I16BE),
                    ("i4", h5py.h5t.STD_I32LE),
                    ("bf4", h5py.h5t.IEEE_F32BE),
                    ("f8", h5py.h5t.IEEE_F64LE),
                ]:
                    for shape, chunk in [((70, 50), (32, 50)), ((5000,), (4999,))]:
                        made = f"{name}_{options}_{block}_{len(shape)}"
                        set_up = lambda p, o=options, b=block: p.set_szip(o, b)  # noqa: E731
                        for what, data in [
                            ("smooth", smooth(*shape)),
                            ("zeros", np.zeros(shape)),
                            ("noise", RANDOM.integers(0, 120, shape)),
                        ]:
                            low_level(group, f"{made}_{what}", shape, kind, set_up, chunk, data)
    return groups(out / "a.h5", ["s"])


@case
def unwritten(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        group.create_dataset("zeros", (5, 2), "<f4")
        group.create_dataset("fives", (5, 2), "<f4", fillvalue=5)
        group.create_dataset("scalar", (), "<i2", fillvalue=9)
    return groups(out / "a.h5", ["s"])


@case
def compact(out):
    with h5py.File(out / "a.h5", "w") as file:
        group = file.create_group("s")
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((7, 3))
        made = h5py.h5d.create(group.id, b"small", h5py.h5t.IEEE_F32LE, space, plist)
        h5py.Dataset(made)[...] = floats(7, 3)
        for number in range(40):
            group.attrs[f"note{number}"] = "text that pushes messages into a continuation"
    return groups(out / "a.h5", ["s"])

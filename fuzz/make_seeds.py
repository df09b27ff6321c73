"""Writes the seeds of the targets `hdf5` and `scan`: small files of the indexer's test cases."""

import subprocess
import sys
import tempfile
from pathlib import Path

FUZZ = Path(__file__).parent
TESTS = FUZZ.parent / "crates/indexer/tests"
# A seed is mutated byte by byte: a large one is mutated where nothing is.
MOST = 12_000

HDF5 = [
    "committed_type",
    "compact",
    "compound_rows",
    "contiguous",
    "external_data",
    "filter_masks",
    "more_types",
    "old_layouts",
    "reference_rows",
    "rows",
    "space_padded_rows",
    "swmr",
    "user_block",
    "variable",
    "variable_rows",
    "virtual_parts",
    "virtual_whole",
    "whole_files",
]
SCAN = [
    "mds",
    "npy_files",
    "npy_rows",
    "npz_deflated",
    "npz_stored",
    "safetensors_files",
    "safetensors_odd",
    "tar_dialects",
    "tar_links",
    "tar_webdataset",
    "tfrecord",
]


def make(script: str, case: str, folder: Path) -> list[Path]:
    command = [sys.executable, str(TESTS / script), case, str(folder)]
    subprocess.run(command, check=True)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def main() -> None:
    for name in ("hdf5", "scan"):
        (FUZZ / "seeds" / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for case in HDF5:
            for number, path in enumerate(make("make_hdf5.py", case, work / case)):
                if path.suffix == ".h5" and path.stat().st_size <= MOST:
                    seed = FUZZ / "seeds/hdf5" / f"{case}_{number}"
                    seed.write_bytes(path.read_bytes())
        for case in SCAN:
            for number, path in enumerate(make("make_formats.py", case, work / f"f_{case}")):
                if path.stat().st_size > MOST or number > 2 or path.suffix == ".json":
                    continue
                raw = path.read_bytes()
                if path.suffix == ".mds":
                    raw = path.with_name("index.json").read_bytes() + b"\0" + raw
                (FUZZ / "seeds/scan" / f"{case}_{number}").write_bytes(raw)


if __name__ == "__main__":
    main()

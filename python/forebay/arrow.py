"""Tables of samples that are record batches of Arrow files or row groups of Parquet files.

    ds = forebay.open("table.forebay")
    forebay.arrow.table(ds[7]).to_pandas()

`pyarrow` has to be installed.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from forebay.errors import make

if TYPE_CHECKING:
    import pyarrow

__all__ = ["table"]


def table(sample: Mapping[str, npt.NDArray[Any]]) -> pyarrow.Table:
    """The table that a sample of an Arrow or Parquet file holds.

    Args:
        sample: with the fields `batch` and `head`, or `data`, `footer` and `row_group`, as an index
            of such files has them.

    Raises:
        ForebayError: the sample has other fields (kind `invalid-input`).
        ImportError: there is no `pyarrow`.
    """
    if {"batch", "head"} <= sample.keys():
        import pyarrow.ipc

        stream = np.concatenate([sample["head"], sample["batch"]])
        return pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_all()
    if {"data", "footer", "row_group"} <= sample.keys():
        import pyarrow.parquet

        footer = sample["footer"].tobytes()
        metadata = pyarrow.parquet.read_metadata(io.BytesIO(footer))
        number = int(sample["row_group"])
        file = _RowGroup(sample["data"].tobytes(), footer, _start(metadata.row_group(number)))
        return pyarrow.parquet.ParquetFile(file).read_row_group(number)
    names = ", ".join(f"`{name}`" for name in sample)
    message = (
        f"a sample with the fields {names} is no part of a table: index Arrow or Parquet files"
    )
    raise make("invalid-input", message)


def _start(group: Any) -> int:
    """The first byte of a row group in its file."""
    starts = []
    for number in range(group.num_columns):
        column = group.column(number)
        starts.append(column.data_page_offset)
        if column.dictionary_page_offset is not None:
            starts.append(column.dictionary_page_offset)
    return int(min(starts))


class _RowGroup(io.RawIOBase):
    """A Parquet file of which only one row group and the metadata are there."""

    def __init__(self, data: bytes, footer: bytes, start: int) -> None:
        super().__init__()
        self._pieces = ((start, data), (start + len(data), footer))
        self._size = start + len(data) + len(footer)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, out: Any) -> int:
        view = memoryview(out).cast("B")
        end = min(self._at + len(view), self._size)
        count = max(end - self._at, 0)
        view[:count] = bytes(count)
        for start, piece in self._pieces:
            first, last = max(start, self._at), min(start + len(piece), end)
            if first < last:
                view[first - self._at : last - self._at] = piece[first - start : last - start]
        self._at += count
        return count

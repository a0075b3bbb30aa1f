"""Events as Parquet, in row groups; needs the `export` extra."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING

from indelible.errors import BadCall
from indelible.journal.exports.excerpt import Excerpt
from indelible.journal.exports.flat import COLUMNS, NUMBERS, Row, row_of

if TYPE_CHECKING:
    from arro3.core import DataType, RecordBatch, Schema

_ROWS_AT_ONCE = 2048


def write_parquet(excerpt: Excerpt, out: IO[bytes]) -> None:
    """Writes one row per event."""
    try:
        from arro3 import core, io
    except ModuleNotFoundError as problem:
        raise BadCall("Parquet needs more packages; run: pip install 'indelible[export]'") from problem
    schema = core.Schema([core.Field(name, _type_of(name), nullable=True) for name in COLUMNS])
    batches = _Batches((row_of(shown) for shown in excerpt.read()), schema)
    reader = core.RecordBatchReader.from_batches(schema, batches)
    try:
        io.write_parquet(reader, out, compression="zstd(3)", max_row_group_size=_ROWS_AT_ONCE * 8)
    except Exception:
        if batches.problem is not None:
            raise batches.problem from None
        raise


class _Batches:
    """Gives rows in batches; keeps what goes wrong, for the writer would tell it only as a text."""

    def __init__(self, rows: Iterator[Row], schema: Schema) -> None:
        self._rows = rows
        self._schema = schema
        self.problem: Exception | None = None

    def __iter__(self) -> Iterator[RecordBatch]:
        from arro3.core import Array, RecordBatch

        try:
            while page := list(islice(self._rows, _ROWS_AT_ONCE)):
                columns = [Array([row[name] for row in page], type=_type_of(name)) for name in COLUMNS]
                yield RecordBatch.from_arrays(columns, schema=self._schema)
        except Exception as problem:
            self.problem = problem
            raise


def _type_of(name: str) -> DataType:
    from arro3.core import DataType

    return DataType.int64() if name in NUMBERS else DataType.utf8()

"""Spark's column types and ours."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from slackwater.model.schema import Schema
from slackwater.sources.files import schema_of


def schema_of_frame(name: str, frame: DataFrame, time: str) -> Schema:
    """The schema of a stream that is a DataFrame."""
    return schema_of(name, to_arrow_schema(frame.schema).empty_table(), time)


def spark_type(schema: pa.Schema) -> StructType:
    """The Spark type of an Arrow schema."""
    return from_arrow_schema(schema)

"""What each property type is in Spark, and how columns are turned into one another.

======================  ==================  =====================================================
Property                Spark               Why
======================  ==================  =====================================================
String, enum            string              the values that an enum allows stay in the catalog
Bool, I32, I64          boolean, int, bigint
U32                     bigint              Spark has no unsigned integers; this holds all values
U64                     decimal(20,0)       as above
F32, F64                float, double
Date                    date
DateTime                timestamp           an instant; Spark counts microseconds, we milliseconds
Blob                    binary
Vector(n)               array<float>        the length is checked when it comes back
[T]                     array<T>            the elements are never null
======================  ==================  =====================================================
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, types

from omnigraph.catalog import Enum, List, PropertyType, Scalar, Vector, property_type
from omnigraph.query.results import vectors

_SCALARS: dict[Scalar, types.DataType] = {
    Scalar.STRING: types.StringType(),
    Scalar.BOOL: types.BooleanType(),
    Scalar.I32: types.IntegerType(),
    Scalar.I64: types.LongType(),
    Scalar.U32: types.LongType(),
    Scalar.U64: types.DecimalType(20, 0),
    Scalar.F32: types.FloatType(),
    Scalar.F64: types.DoubleType(),
    Scalar.DATE: types.DateType(),
    Scalar.DATETIME: types.TimestampType(),
    Scalar.BLOB: types.BinaryType(),
}
# Only those that Spark takes in another form than we keep.
_EXCHANGED: dict[pa.DataType, pa.DataType] = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
    pa.large_binary(): pa.binary(),
}


def spark_type(type: PropertyType) -> types.DataType:
    """The Spark type of a property type; in an answer, a whole entity is a struct of them and a bare null is void."""
    match type:
        case Enum():
            return _SCALARS[Scalar.STRING]
        case Vector():
            return types.ArrayType(_SCALARS[Scalar.F32], containsNull=False)
        case List(element):
            return types.ArrayType(spark_type(element), containsNull=False)
        case scalar:
            return _SCALARS[scalar]


def exchanged_type(type: pa.DataType) -> pa.DataType:
    """The Arrow type in which a column of one of our types goes to Spark and comes back."""
    if pa.types.is_struct(type):
        return pa.struct(list(exchanged_schema(pa.schema(list(type)))))
    if pa.types.is_fixed_size_list(type) or pa.types.is_list(type):
        return pa.list_(pa.field("element", exchanged_type(type.value_type), nullable=False))
    return _EXCHANGED.get(type, type)


def exchanged_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in which a table of ours goes to Spark."""
    return pa.schema([pa.field(each.name, exchanged_type(each.type), nullable=each.nullable) for each in schema])


def spark_schema(schema: pa.Schema) -> types.StructType:
    """The Spark schema of an Arrow schema of ours."""
    return types.StructType([types.StructField(each.name, _column_type(each), each.nullable) for each in schema])


def _column_type(field: pa.Field) -> types.DataType:
    if pa.types.is_struct(field.type):
        return spark_schema(pa.schema(list(field.type)))
    if pa.types.is_null(field.type):
        return types.NullType()
    found = property_type(field.type)
    assert found is not None, f"no property has a column of type {field.type}"
    return spark_type(found)


def to_spark(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of our types as Spark takes them; `schema` is the exchanged one, and its columns are theirs."""
    for batch in batches:
        arrays = [_exchanged(batch.column(each.name), each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _exchanged(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type == type:
        return array
    if pa.types.is_struct(type):
        fields = [_exchanged(each, type.field(index).type) for index, each in enumerate(array.flatten())]
        return pa.StructArray.from_arrays(fields, fields=list(type), mask=array.is_null())
    if pa.types.is_fixed_size_list(array.type) and array.null_count:
        # A null vector has its numbers all the same, and they may be null, which a list says that its are not.
        lengths = pc.multiply(pc.cast(array.is_valid(), pa.int32()), pa.scalar(array.type.list_size, pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets, array.flatten(), type=type, mask=array.is_null())
    return array.cast(type)


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """Rows that are here as a data frame that carries them."""
    schema = exchanged_schema(table.schema)
    batches = list(to_spark(table.to_batches(), schema))
    # Spark looks at the type of a first chunk, so there must be one.
    moved = pa.Table.from_batches(batches) if batches else schema.empty_table()
    return session.createDataFrame(moved, spark_schema(table.schema))


def from_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch that came from Spark in our own types: those of `schema`, whose columns it has.

    Raises `pyarrow.ArrowInvalid` for a value that the type does not hold: a number out of range, a vector of another
    length, an instant that is no whole millisecond.
    """
    arrays = [_returned(batch.column(each.name), each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _returned(array: pa.Array, type: pa.DataType) -> pa.Array:
    return vectors(array, type) if pa.types.is_fixed_size_list(type) else array.cast(type)

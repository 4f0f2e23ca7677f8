"""What each property type is in Spark, and how columns are converted.

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
from pyspark.sql import DataFrame, SparkSession, types

from omnigraph.catalog import Enum, List, PropertyType, Scalar, Vector, property_type
from omnigraph.compute_later import pc

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
# Only the types that Spark takes in another form than tables have.
_EXCHANGED: dict[pa.DataType, pa.DataType] = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
    pa.large_binary(): pa.binary(),
}


def spark_type(type: PropertyType) -> types.DataType:
    """The Spark type of a property type."""
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
    """The Arrow type in which a column of a table is sent to Spark."""
    if pa.types.is_struct(type):
        return pa.struct(list(exchanged_schema(pa.schema(list(type)))))
    if pa.types.is_fixed_size_list(type) or pa.types.is_list(type):
        return pa.list_(pa.field("element", exchanged_type(type.value_type), nullable=False))
    return _EXCHANGED.get(type, type)


def exchanged_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in which a table is sent to Spark."""
    return pa.schema([pa.field(each.name, exchanged_type(each.type), nullable=each.nullable) for each in schema])


def spark_schema(schema: pa.Schema) -> types.StructType:
    """The Spark schema of the Arrow schema of a table or a result: an entity is a struct, a bare null is void."""
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
    """Converts batches to the schema that `exchanged_schema` gives for theirs."""
    for batch in batches:
        arrays = [_convert(batch.column(each.name), each.type) for each in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _convert(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type == type:
        return array
    if pa.types.is_struct(type):
        fields = [_convert(each, type.field(index).type) for index, each in enumerate(array.flatten())]
        return pa.StructArray.from_arrays(fields, fields=list(type), mask=array.is_null())
    if pa.types.is_fixed_size_list(array.type) and array.null_count:
        # A null vector still has numbers, which may be null, and the elements of the list must not be null.
        lengths = pc.multiply(pc.cast(array.is_valid(), pa.int32()), pa.scalar(array.type.list_size, pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets, array.flatten(), type=type, mask=array.is_null())
    return array.cast(type)


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """Rows of this process as a data frame."""
    schema = exchanged_schema(table.schema)
    batches = list(to_spark(table.to_batches(), schema))
    # Spark reads the type of the first chunk, so there must be one.
    moved = pa.Table.from_batches(batches) if batches else schema.empty_table()
    return session.createDataFrame(moved, spark_schema(table.schema))

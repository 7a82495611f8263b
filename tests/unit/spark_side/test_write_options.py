"""Options of a write, and their columns."""

import pickle
from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from twinbus.spark.option_reader import OptionError
from twinbus.spark.schema import spark_schema
from twinbus.spark.write_options import MAX_REQUEST_BYTES, WriteOptions, write_options

from .ddl import schema_of

TEXTS = MapType(StringType(), StringType())
SECRET = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=the-key"


def checked(schema: str = "body string", **options: Any) -> WriteOptions:
    given = {"connectionString": SECRET, "entity": "orders", **options}
    return write_options(
        {name: value for name, value in given.items() if value is not None},
        schema_of(schema),
        overwrite=False,
    )


def refused(schema: str = "body string", **options: Any) -> str:
    with pytest.raises(OptionError) as caught:
        checked(schema, **options)
    assert "the-key" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_said_has_a_default() -> None:
    options = checked()
    assert (options.entity, options.columns.entity) == ("orders", None)
    assert options.columns.sent == {"body": 0}
    assert (options.columns.send_id, options.id_scope) == (None, "")
    assert options.max_request_bytes == 4 << 20
    assert options.patience_ms == 300_000


def test_options_travel_and_show_no_secret() -> None:
    copy = pickle.loads(pickle.dumps(checked(idColumn="body", idScope="x")))
    assert copy.id_scope == "x"
    assert copy.connection.open().connection_string == SECRET
    assert "the-key" not in repr(copy)


def test_names_of_options_and_columns_have_no_case() -> None:
    options = checked("BODY string, Target string", entity=None, ENTITYCOLUMN="target")
    assert options.columns.sent == {"body": 0}
    assert options.columns.entity == 1


def test_the_column_entity_counts_if_no_entity_is_given() -> None:
    schema = "entity string, body string"
    assert checked(schema, entity=None).columns.entity == 0
    assert checked(schema, entity="x").columns.entity is None
    assert checked(schema, entity=None, path="/y/").entity == "y"


def test_columns_that_the_bus_fills_are_passed_over() -> None:
    schema = "sequence_number bigint, state string, size_bytes int, body binary"
    assert checked(schema).columns.sent == {"body": 3}


def test_a_named_column_need_not_be_one_of_a_message() -> None:
    options = checked("body string, order_no binary", idColumn="order_no")
    assert options.columns.send_id == 1
    assert options.columns.sent == {"body": 0}


@pytest.mark.parametrize("size", ["1024", str(MAX_REQUEST_BYTES)])
def test_sizes_at_the_limits(size: str) -> None:
    assert checked(maxBytesPerRequest=size).max_request_bytes == int(size)


@pytest.mark.parametrize("size", ["1023", str(MAX_REQUEST_BYTES + 1), "many"])
def test_sizes_past_the_limits(size: str) -> None:
    assert "'maxBytesPerRequest' is " in refused(maxBytesPerRequest=size)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("body string, x int", "The column 'x' is not one of a message. Drop it"),
        ("body string, Body string", "has the column 'Body' twice"),
        (
            "body array<tinyint>",
            "is of type array<tinyint>; it must be binary or string",
        ),
        ("state string", "The DataFrame has no column of a message."),
        (
            "application_properties map<int,string>",
            "is of type map<int,string>; it must be map<string,string>",
        ),
    ],
)
def test_columns_that_do_not_fit(schema: str, text: str) -> None:
    assert text in refused(schema)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"entity": None}, "The rows have no destination."),
        ({"entity": "/"}, "it must be the path of one queue or topic"),
        ({"path": "other"}, "'entity' is 'orders', and save() was given 'other'."),
        ({"entityColumn": "body"}, "Give either 'entity'"),
        ({"idColumn": "gone"}, "'idColumn' is 'gone', and the DataFrame has no such"),
        ({"idScope": "s"}, "'idScope' is given without 'idColumn'"),
        ({"idColumn": "body", "idScope": "s" * 257}, "'idScope' has 257 characters"),
        ({"settlement": "browse"}, "'settlement' is not an option of the format"),
        ({"connectionString": None}, "Give either 'credential'"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], text: str) -> None:
    assert text in refused(**options)


def test_nothing_is_overwritten() -> None:
    with pytest.raises(OptionError, match=r"Use mode\('append'\)"):
        write_options(
            {"connectionString": SECRET, "entity": "orders"},
            schema_of("body string"),
            overwrite=True,
        )


# --- application properties -------------------------------------------------------


def properties(kind: DataType, **columns: DataType) -> StructType:
    fields = [StructField("application_properties", kind)]
    return StructType(
        fields + [StructField(name, kind) for name, kind in columns.items()]
    )


def planned(schema: StructType, **options: str) -> WriteOptions:
    given = {"connectionString": SECRET, "entity": "orders", **options}
    return write_options(given, schema, overwrite=False)


@pytest.mark.parametrize(
    "kind",
    [
        TEXTS,
        MapType(StringType(), LongType()),
        StructType([StructField("n", IntegerType()), StructField("s", StringType())]),
    ],
)
def test_properties_are_maps_or_structs(kind: DataType) -> None:
    assert planned(properties(kind)).columns.properties_type == kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (StringType(), "it must be map<string,string>"),
        (MapType(IntegerType(), StringType()), "it must be map<string,string>"),
        (MapType(StringType(), DecimalType(10, 2)), r"of type decimal\(10,2\)"),
        (MapType(StringType(), TEXTS), "which AMQP does not have"),
        (
            StructType([StructField("day", DateType())]),
            "application_properties.day are of type date.*Cast them to one of string",
        ),
    ],
)
def test_types_that_amqp_does_not_have_are_refused(kind: DataType, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        planned(properties(kind))


def test_types_are_kept_or_given_up_by_name() -> None:
    read = spark_schema(("body", "application_properties"))
    with pytest.raises(OptionError, match="propertyTypes=strings"):
        planned(read)
    assert not planned(read, propertyTypes="strings").keeps_types
    whole = spark_schema(
        ("body", "application_properties", "application_property_types")
    )
    assert planned(whole).keeps_types
    # The whole message is in it, with all types.
    assert planned(spark_schema(("application_properties", "raw"))).keeps_types
    # Somebody's own map of strings.
    assert planned(properties(TEXTS)).keeps_types


def test_types_beside_typed_values_are_refused() -> None:
    schema = properties(
        MapType(StringType(), LongType()), application_property_types=TEXTS
    )
    with pytest.raises(OptionError, match="drop 'application_property_types'"):
        planned(schema)


def test_a_table_of_the_catalog_is_refused() -> None:
    with pytest.raises(OptionError, match=r"CREATE TABLE .* does not work"):
        write_options({}, schema_of("body string"), overwrite=False)

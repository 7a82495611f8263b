"""The schemas of a report's tables."""

from twinbus.spark.jobs.report.tables import TABLES


def test_names_are_unique_and_columns_explained() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        columns = [column.name for column in table.columns]
        assert len(set(columns)) == len(columns)
        assert all(column.text for column in table.columns)
        assert table.arrow_schema().names == columns


def test_tables_of_hours_begin_with_the_hour() -> None:
    for table in TABLES:
        assert (table.columns[0].name == "hour_start") == table.has_hours

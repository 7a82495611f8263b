"""HTML from values of strangers."""

from twinbus.spark.jobs.report.markup import Head, command, paragraph, table

EVIL = '<script>alert("x")</script>&'


def test_nothing_of_a_log_becomes_markup() -> None:
    heads = (Head(EVIL, lambda row: row["a"]), Head("n", lambda row: "1", True))
    texts = (table(EVIL, heads, [{"a": EVIL}]), paragraph(EVIL), command(EVIL))
    for text in texts:
        assert "<script" not in text
        assert '"x"' not in text


def test_a_table_names_its_columns_and_itself() -> None:
    text = table("Sums", (Head("Count", lambda row: "7", True),), [{}])
    assert "<caption>Sums</caption>" in text
    assert '<th scope="col" class="number">Count</th>' in text
    assert '<td class="number">7</td>' in text

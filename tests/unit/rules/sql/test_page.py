"""The filters and actions that the page about rules shows are valid."""

from pathlib import Path

from twinbus.rules.sql.rule_checks import sql_action, sql_filter

PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "rules.md"


def test_filters_and_actions_of_the_page_can_be_read() -> None:
    filters, actions = (
        block.split("```", 1)[0].strip().splitlines()
        for block in PAGE.read_text().split("```text\n")[1:]
    )
    assert len(filters) == 7
    assert len(actions) == 3
    for text in filters:
        sql_filter(text)
    for text in actions:
        sql_action(text)

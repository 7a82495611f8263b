"""Rules as XML: values keep types and texts, prefixes are as clients need them."""

import pytest

from twinbus.doors.http.administration.rule_xml import read_rule, write_rule
from twinbus.doors.http.administration.xml_reading import read_xml
from twinbus.errors import ArgumentError
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import rule_of_json

XSI = "http://www.w3.org/2001/XMLSchema-instance"


def rule(document: dict[str, object]) -> Rule:
    return rule_of_json({"name": "r", "created_at": 1_000, **document})


VALUES = {
    "s": ["string", " a<b "],
    "n": ["int", "5"],
    "l": ["long", "5000000000"],
    "d": ["double", "2.50"],
    "b": ["boolean", "true"],
    "t": ["dateTime", "2026-01-01T00:00:00Z"],
    "u": ["duration", "PT1M"],
}

RULES: list[dict[str, object]] = [
    {"filter": {"kind": "true"}},
    {"filter": {"kind": "false"}},
    {"filter": {"kind": "sql", "text": "a < 5 AND b = '&'", "parameters": {}}},
    {
        "filter": {"kind": "sql", "text": "a = @n", "parameters": {"@n": ["int", "5"]}},
        "action": {"text": "SET b = @x", "parameters": {"@x": ["string", "y"]}},
    },
    {
        "filter": {
            "kind": "correlation",
            "fields": {
                **{"correlation_id": "1", "message_id": "2", "to": "3"},
                **{"reply_to": "4", "label": "5", "session_id": "6"},
                **{"reply_to_session_id": "7", "content_type": "8"},
            },
            "properties": VALUES,
        }
    },
]


@pytest.mark.parametrize("document", RULES)
def test_what_is_written_reads_the_same(document: dict[str, object]) -> None:
    original = rule(document)
    read = read_rule(read_xml(write_rule(original).encode()), "r", "t/s")
    assert rule(read).to_json() == original.to_json()


def test_elements_and_types_are_the_services() -> None:
    xml = write_rule(rule({"filter": {"kind": "true"}}))
    assert (
        '<Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression>'
        "<CompatibilityLevel>20</CompatibilityLevel></Filter>"
        '<Action i:type="EmptyRuleAction"/>'
        "<CreatedAt>1970-01-01T00:00:01.000Z</CreatedAt><Name>r</Name>"
    ) in xml


def test_types_of_values_have_a_prefix_of_four_letters() -> None:
    filter = {"kind": "sql", "text": "a=@n", "parameters": {"@n": ["int", "5"]}}
    assert (
        "<Parameters><KeyValueOfstringanyType><Key>@n</Key>"
        '<Value i:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5'
        "</Value></KeyValueOfstringanyType></Parameters>"
    ) in write_rule(rule({"filter": filter}))


def test_nothing_is_written_where_there_are_no_values() -> None:
    filter = {"kind": "sql", "text": "a=1", "parameters": {}}
    assert "Parameters" not in write_rule(rule({"filter": filter}))


def test_a_rule_as_javascript_writes_it() -> None:
    xml = f"""
    <RuleDescription xmlns="urn:sb"><Filter p4:type="CorrelationFilter"
      xmlns:p4="{XSI}"><Properties><KeyValueOfstringanyType><Key>n</Key>
      <Value p4:type="l28:double" xmlns:l28="http://www.w3.org/2001/XMLSchema">5</Value>
      </KeyValueOfstringanyType></Properties></Filter>
      <Action p4:type="EmptyRuleAction" xmlns:p4="{XSI}"/><Name>r</Name>
    </RuleDescription>"""
    assert read_rule(read_xml(xml.encode()), "r", "t/s") == {
        "name": "r",
        "filter": {
            "kind": "correlation",
            "fields": {},
            "properties": {"n": ["double", "5"]},
        },
    }


def test_without_a_filter_every_message_is_taken() -> None:
    document = read_rule(read_xml(b"<RuleDescription/>"), "r", "t/s")
    assert document == {"name": "r", "filter": {"kind": "true"}}


@pytest.mark.parametrize(
    ("inner", "complaint"),
    [
        ('<Filter i:type="DateTimeFilter"/>', "'DateTimeFilter'; it must be SqlFilter"),
        ("<Filter/>", "the type of 'Filter'"),
        ('<Action i:type="Magic"/>', "'Magic'; it must be EmptyRuleAction or"),
        (
            '<Filter i:type="SqlFilter"><Parameters><KeyValueOfstringanyType>'
            "<Key>k</Key></KeyValueOfstringanyType></Parameters></Filter>",
            "lacks its Key or its Value",
        ),
    ],
)
def test_what_is_no_rule_is_refused(inner: str, complaint: str) -> None:
    xml = f'<RuleDescription xmlns:i="{XSI}">{inner}</RuleDescription>'
    with pytest.raises(ArgumentError, match=f"(?i){complaint}"):
        read_rule(read_xml(xml.encode()), "r", "t/s")

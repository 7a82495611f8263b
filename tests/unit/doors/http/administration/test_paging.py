"""Pages: every item appears once, for every page size."""

import pytest

from twinbus.doors.http.administration.paging import Page, prefix_of
from twinbus.errors import ArgumentError


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 250])
@pytest.mark.parametrize("top", ["1", "3", "100", "1000"])
def test_pages_hold_every_item_once(count: int, top: str) -> None:
    found: list[int] = []
    query: dict[str, str] = {"$top": top}
    while True:
        page = Page(range(count), query)
        found += page.items
        if page.next_query is None:
            break
        query = dict(part.split("=") for part in page.next_query.rstrip("&").split("&"))
        # Python reads both from the link.
        assert query.keys() == {"$skip", "$top"}
    assert found == list(range(count))


def test_a_page_has_a_hundred_at_most() -> None:
    assert len(Page(range(1_000), {}).items) == 100
    assert len(Page(range(1_000), {"$top": "500"}).items) == 100


def test_no_page_at_all_ends_the_list() -> None:
    assert Page(range(5), {"$top": "0"}).next_query is None
    assert Page(range(5), {"$skip": "5"}).next_query is None
    assert Page(range(5), {"$skip": "999999999"}).items == range(5, 5)


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", "1" * 30, "\u0663"])
@pytest.mark.parametrize("name", ["$skip", "$top"])
def test_numbers_that_are_none_are_refused(name: str, text: str) -> None:
    with pytest.raises(ArgumentError, match="a whole number from 0"):
        Page([1], {name: text})


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("", ""),
        ("startswith(path,'Ord') eq true", "ord"),
        ("startswith( path , 'a/b' )  EQ TRUE", "a/b"),
        ("StartsWith(path,'x')", "x"),
        ("startswith(path,'it''s') eq true", "it's"),
        ("startswith(path,'') eq true", ""),
    ],
)
def test_the_filter_is_a_prefix(text: str, prefix: str) -> None:
    assert prefix_of({"$filter": text}) == prefix


@pytest.mark.parametrize(
    "text",
    [
        "startswith(path,'x') eq false",
        "startswith(name,'x') eq true",
        "startswith(path,'x) eq true",
        "path eq 'x'",
        "startswith(path,'a') eq true and startswith(path,'b') eq true",
        "startswith(path,'" + "'" * 10_001,
    ],
)
def test_other_filters_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"startswith\(path,"):
        prefix_of({"$filter": text})


def test_the_next_page_keeps_the_filter() -> None:
    query = {"$filter": "startswith(path,'a b') eq true", "$top": "1"}
    following = Page([1, 2], query).next_query
    assert following is not None
    assert "$filter=startswith%28path%2C%27a%20b%27%29%20eq%20true&" in following

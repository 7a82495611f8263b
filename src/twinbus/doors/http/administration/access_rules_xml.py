"""The shared access rules of an entity, as part of its description.

The description includes their keys, as in the service: a client that may manage an
entity may read them. A rule without a key gets one, which is returned.
"""

from collections.abc import Callable, Sequence

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.doors.http.administration.xml_reading import XmlElement
from twinbus.doors.http.administration.xml_writing import element, instant, parent
from twinbus.errors import ArgumentError


def write_access_rules(
    rules: Sequence[AccessRule], created_at: int, updated_at: int
) -> str:
    return parent(
        "AuthorizationRules",
        "".join(_write(rule, created_at, updated_at) for rule in rules),
    )


def _write(rule: AccessRule, created_at: int, updated_at: int) -> str:
    rights = "".join(element("AccessRights", right) for right in rule.rights)
    return parent(
        "AuthorizationRule",
        element("ClaimType", "SharedAccessKey")
        + element("ClaimValue", "None")
        + parent("Rights", rights)
        + element("CreatedTime", instant(created_at))
        + element("ModifiedTime", instant(updated_at))
        + element("KeyName", rule.key_name)
        + element("PrimaryKey", rule.primary_key)
        + element("SecondaryKey", rule.secondary_key),
        ' i:type="SharedAccessAuthorizationRule"',
    )


def read_access_rules(
    parent_element: XmlElement, path: str, new_key: Callable[[], str]
) -> list[AccessRule]:
    """Raises ArgumentError for a rule without a name."""
    return [
        _read(child, path, new_key)
        for child in parent_element.children
        if child.name == "AuthorizationRule"
    ]


def _read(rule: XmlElement, path: str, new_key: Callable[[], str]) -> AccessRule:
    key_name = rule.value("KeyName")
    if not key_name:
        raise ArgumentError(
            f"An authorization rule of '{path}' has no KeyName.", entity_path=path
        )
    rights = rule.child("Rights")
    return AccessRule(
        key_name=key_name,
        primary_key=rule.value("PrimaryKey") or new_key(),
        secondary_key=rule.value("SecondaryKey") or new_key(),
        rights=tuple(
            child.text.strip() for child in (rights.children if rights else ())
        ),
    )

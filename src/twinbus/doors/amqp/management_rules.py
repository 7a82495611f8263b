"""Management requests about the rules of a subscription: add, remove, enumerate."""

from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import MAX_INT, integer
from twinbus.doors.amqp.rule_messages import described_rule, rule_of_map
from twinbus.errors import ArgumentError
from twinbus.operations import rules
from twinbus.operations.entity_handle import EntityHandle


async def add_rule(handle: EntityHandle, request: Request) -> Response:
    description = request.argument("rule-description")
    rule = rule_of_map(_rule_name(request), description, handle.now())
    await rules.add_rule(handle, rule, request.transaction)
    return Response()


async def remove_rule(handle: EntityHandle, request: Request) -> Response:
    await rules.remove_rule(handle, _rule_name(request), request.transaction)
    return Response()


async def enumerate_rules(handle: EntityHandle, request: Request) -> Response:
    """A page of rules. The JavaScript SDK asks until a page is empty."""
    top = integer(request.argument("top"), "top", 0, MAX_INT)
    skip = integer(request.argument("skip"), "skip", 0, MAX_INT)
    found = await rules.list_rules(handle, skip, top)
    if not found:
        return Response(status=204, description="No rules.")
    entries = [{"rule-description": described_rule(rule)} for rule in found]
    return Response(value={"rules": entries})


def _rule_name(request: Request) -> str:
    name = request.argument("rule-name")
    if not isinstance(name, str):
        raise ArgumentError("'rule-name' must be a string.")
    return str(name)

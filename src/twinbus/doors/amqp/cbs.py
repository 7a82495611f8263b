"""`$cbs`: a client puts its token here before it attaches to an entity.

The kind of a token is read from the token itself: the Python SDK labels shared access
signatures as `jwt`. Answers carry no error condition, because with one the Python SDK
loses the status.
"""

from collections.abc import Callable
from typing import Final

from twinbus.amqp.messaging import AmqpMap
from twinbus.auth.claims import Grant
from twinbus.auth.sas import is_sas, parse
from twinbus.broker.entity_path import parse_entity_path
from twinbus.clock import Clock
from twinbus.doors.amqp.request_links import Request, Response, status_code
from twinbus.doors.visitor import Visitor
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    AuthenticationFailed,
    MessagingEntityNotFound,
    ServiceBusError,
)
from twinbus.limits import TOKEN_REQUEST_BYTES
from twinbus.links.refusal import track

ADDRESS: Final = "$cbs"


class CbsNode:
    """Checks the tokens of one connection."""

    address = ADDRESS
    max_request_bytes = TOKEN_REQUEST_BYTES

    def __init__(
        self,
        namespace: Namespace,
        clock: Clock,
        visitor: Visitor,
        proved: Callable[[Grant], None],
    ) -> None:
        self._namespace = namespace
        self._visitor = visitor
        self._clock = clock
        # Called with the grant of each valid token. Raises ArgumentError.
        self._proved = proved

    def allowed_request_bytes(self) -> int:
        return self.max_request_bytes

    async def answer(self, request: Request) -> Response:
        if request.operation != "put-token":
            return Response(status=400, description="The operation must be put-token.")
        audience = request.properties.get("name")
        token = request.value
        if not isinstance(audience, str) or not isinstance(token, str):
            return Response(
                status=400,
                description="put-token needs the property 'name' and a token as body.",
            )
        try:
            self._put(audience, token)
        except MessagingEntityNotFound as error:
            track(error)
            return Response(status=404, description=error.description)
        except ServiceBusError as error:
            track(error)
            return Response(status=401, description=error.description)
        return Response(status=202, description="Accepted")

    def _put(self, audience: str, token: str) -> None:
        if not is_sas(token):
            raise AuthenticationFailed(
                "The token is not a shared access signature, the only kind that this "
                "bus takes. Use a connection string with a key."
            )
        policy, visitor = self._namespace.policy, self._visitor
        key_name = parse(token).key_name
        visitor.check(key_name)
        try:
            grant = policy.grant_by_token(token, audience, self._clock.now())
        except AuthenticationFailed:
            if not policy.is_signed(token):
                visitor.failed(key_name, policy)
            raise
        visitor.proved(grant.key_name)
        # As in the service. Only a client with a valid token is told whether an entity
        # exists.
        self._namespace.check_exists(parse_entity_path(grant.path).entity)
        self._proved(grant)

    def status_properties(self, response: Response) -> AmqpMap:
        return {
            "status-code": status_code(response),
            "status-description": response.description,
        }

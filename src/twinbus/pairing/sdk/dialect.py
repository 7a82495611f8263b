"""How a pair reads and writes the SDK's messages and errors."""

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from twinbus.pairing.detour import Detour, DetourError
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk import error_kinds, explaining, messages


class SdkDialect:
    """`Dialect` for azure-servicebus."""

    def stamp(
        self, message: ServiceBusMessage, send_id: bytes, message_id: str | None
    ) -> None:
        messages.stamp(message, send_id, message_id)

    def unstamp(self, message: ServiceBusMessage) -> None:
        messages.unstamp(message)

    def send_id(self, message: ServiceBusMessage) -> bytes | None:
        return messages.send_id_of(message)

    def session_id(self, message: ServiceBusMessage) -> str | None:
        return message.session_id

    def message_id(self, message: ServiceBusMessage) -> str | None:
        return message.message_id

    def detour(self, message: ServiceBusMessage) -> Detour | None:
        try:
            return messages.detour_of(message)
        except DetourError:
            return None

    def divert(
        self,
        message: ServiceBusMessage,
        path: str,
        due_at: int | None = None,
        key: str | None = None,
    ) -> ServiceBusMessage:
        return messages.divert(message, path, due_at, key)

    def kind_of(self, error: BaseException) -> FailureKind:
        return error_kinds.kind_of(error)

    def reason_of(self, error: BaseException) -> str:
        return explaining.reason_of(error)

    def as_raised(self, error: Exception) -> Exception:
        return explaining.as_raised(error)

    def timed_out(self, text: str) -> Exception:
        return OperationTimeoutError(message=text)

    def refused(self, text: str) -> Exception:
        return ServiceBusError(text)

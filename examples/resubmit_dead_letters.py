"""Sends dead letters back to their queue, and prints why each was there.

It sends each copy first and completes the dead letter afterwards: a crash in between
leaves two copies, but loses none. It sends each message back only once, so that a
message that always fails does not go round for ever.
"""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

QUEUE = "orders"
MARK = "resubmitted"
QUIET_SECONDS = 2


def main() -> None:
    connection_string = os.environ["TWINBUS_CONNECTION_STRING"]
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(
            QUEUE,
            sub_queue=ServiceBusSubQueue.DEAD_LETTER,
            max_wait_time=QUIET_SECONDS,
        ) as dead_letters,
    ):
        for letter in dead_letters:
            properties = letter.application_properties or {}
            if MARK.encode() in properties:
                print(f"kept {letter}: {letter.dead_letter_reason}")
                continue
            copy = ServiceBusMessage(
                b"".join(letter.body),
                message_id=letter.message_id,
                application_properties={MARK: True},
            )
            sender.send_messages(copy)
            dead_letters.complete_message(letter)
            print(f"sent back {letter}: {letter.dead_letter_reason}")


if __name__ == "__main__":
    main()

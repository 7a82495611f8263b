"""Every quota and size in one place, each with the reason for its number.

Service Bus publishes most of these; where it does, the value here is the
documented one and the comment says which. The rest protect the process from a
stranger. What an operator may change is a row of the table in `config_settings.py`:
its default and bounds are here, beside the bounds that nobody may change.
"""

from typing import Final

# --- settings -------------------------------------------------------------------

SETTING_COUNT_MAX: Final = 1_000_000
"""Largest value of settings that count things. A larger number is a typing mistake:
no quota of the service is beyond it."""

# --- messages -------------------------------------------------------------------

MESSAGE_BYTES: Final = 256 * 1024
"""Largest message, the standard tier's limit. A setting (`max_message_bytes`)."""

MESSAGE_BYTES_MIN: Final = 1024
MESSAGE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Bounds of the setting: a message with its properties needs some hundred bytes; the
premium tier's large messages have 100 MB."""

BATCH_BYTES: Final = 256 * 1024
"""Largest batch envelope offered to senders."""

MESSAGE_ID_CHARACTERS: Final = 128
"""MessageId, SessionId and PartitionKey: the service refuses longer ones."""

PROPERTIES_BYTES: Final = 64 * 1024
"""Header, annotations, properties and application properties together."""

TRANSFER_HEADROOM_BYTES: Final = 8 * 1024
"""What a message on its way between paired namespaces may have beyond the limits: in a
transfer queue for the properties that keep its session, times and path, elsewhere for
the annotations that tell it from its copies. All of these together stay below half."""

SEND_ID_BYTES: Final = 64
"""A send id; a UUID has 16, and four of them are enough for any client's scheme."""

SEND_ID_WINDOW_MS: Final = 86_400_000
SEND_ID_WINDOW_MS_MIN: Final = 60_000
SEND_ID_WINDOW_MS_MAX: Final = 366 * 86_400_000
"""For how long send ids are remembered; an outage that is longer may leave copies. A
setting (`send_id_window`), bounded because what is remembered takes room."""

RESTORE_SOURCE_CHARACTERS: Final = 512
"""The source of a restored message: a host and an entity's path, and some."""

RESTORE_GENERATION_CHARACTERS: Final = 128
"""Which life of its source a restored message is from; a UUID has 36."""

DEAD_LETTER_TEXT_CHARACTERS: Final = 4096
"""Reason and description of a dead letter; longer texts are refused."""

# --- entities -------------------------------------------------------------------

ENTITY_PATH_CHARACTERS: Final = 260
"""Documented length of a queue or topic name."""

ENTITIES_PER_NAMESPACE: Final = 10_000
"""Documented number of entities of a namespace (T14). A setting."""

LOCK_DURATION_MS: Final = 60_000
LOCK_DURATION_MS_MIN: Final = 5_000
LOCK_DURATION_MS_MAX: Final = 300_000

MAX_DELIVERY_COUNT: Final = 10
MAX_DELIVERY_COUNT_MAX: Final = 2_147_483_647

MAX_SIZE_IN_MEGABYTES: Final = (
    *(1024, 2048, 3072, 4096, 5120),
    *(10_240, 20_480, 40_960, 81_920),
)
"""Sizes that the tiers offer, the standard one's first; the first is the default
(T7)."""

ENTITY_MEGABYTES: Final = 5120
"""The largest of them that an entity gets: the standard tier's. A setting
(`max_entity_megabytes`)."""

DUPLICATE_WINDOW_MS: Final = 600_000
DUPLICATE_WINDOW_MS_MIN: Final = 20_000
DUPLICATE_WINDOW_MS_MAX: Final = 7 * 86_400_000
"""For how long message ids are remembered: documented default and bounds."""

AUTO_DELETE_ON_IDLE_MS_MIN: Final = 300_000
"""Documented: an entity lives for at least five minutes of idleness."""

USER_METADATA_CHARACTERS: Final = 1024

DURATION_MS_UNLIMITED: Final = 10_675_199 * 86_400_000
"""TimeSpan.MaxValue in whole days. SDKs round what lies above, so every duration
from here on means "for ever"."""

FRAGMENTS_PER_STORE: Final = 65_536
"""Sixteen bits of a row id name the fragment (D2)."""

# --- rules ----------------------------------------------------------------------

FILTER_CHARACTERS: Final = 1024
"""Documented length of a SQL filter."""

ACTION_CHARACTERS: Final = 1024
"""Documented length of a SQL action."""

ACTION_STATEMENTS: Final = 32
"""Documented number of SET and REMOVE statements of one action."""

RULE_NAME_CHARACTERS: Final = 50
"""Documented length of the name of a rule or subscription."""

SQL_RULES_PER_TOPIC: Final = 2_000
CORRELATION_RULES_PER_TOPIC: Final = 100_000
"""Documented numbers of rules of all subscriptions of a topic, by kind of filter.
Settings (`max_sql_rules_per_topic`, `max_correlation_rules_per_topic`)."""

EXPRESSION_DEPTH: Final = 64
"""Operators of a SQL text inside one another. Rules are evaluated by recursion, and
the stack of whoever asks must not depend on what was asked."""

LIKE_PATTERN_CHARACTERS: Final = 1024
"""A pattern that comes from a message may not be longer than one in a filter."""

RULE_TEXT_STEPS: Final = 500_000
"""What all filters of a topic may spend on the texts of one message: 50 ms at the most,
where rules are compiled. A thousand LIKEs may pass over a text of 60 KB in vain."""

RULE_VALUES: Final = 64
"""Parameters of a filter or action, properties of a correlation filter."""

RULE_VALUE_CHARACTERS: Final = 1024
"""A parameter or property of a rule, as text: no longer than a filter itself."""

# --- what one request may ask ---------------------------------------------------

PEEK_COUNT: Final = 250
PEEK_BYTES: Final = 256 * 1024
"""A peek returns fewer than asked past this size (T12)."""

DEFERRED_BYTES: Final = 16 * 1024 * 1024
"""Deferred messages that one request receives, if there is more than one: the answer
is one AMQP message, which is in memory as a whole and several times."""

BATCH_DELETE_COUNT: Final = 4000
"""Messages one batch delete may remove: the premium tier's number."""

SEQUENCE_NUMBERS_PER_REQUEST: Final = 4096
"""Sequence numbers or lock tokens in one management request."""

REQUEST_VALUES: Final = 65_536
"""AMQP values in one management request, those within others counted. Decoding takes
about a microsecond each while everybody waits; a full schedule request has 50,000."""

SCHEDULE_PER_REQUEST: Final = 4096
"""Messages in one schedule request; its size is bounded by the message limit."""

CANCEL_SENT_PER_REQUEST: Final = 100
"""Send ids in one request to cancel; each is compared with every message there is."""

ENTITIES_PER_PAGE: Final = 100
"""Entries in one page of a list, what the SDKs ask for."""

BULK_REQUEST_BYTES: Final = 1024 * 1024
"""A bulk request that is JSON: a thousand entities, or some ten thousand numbers."""

BULK_ENTITIES: Final = 1_000
"""Entities in one bulk request; each costs a check of the token."""

BULK_NUMBERS: Final = 10_000
"""Sequence numbers that one bulk request settles singly."""

BULK_PLAN_MESSAGES: Final = 1_000_000
BULK_PLAN_BYTES: Final = 64 * 1024 * 1024 * 1024
"""What one plan may reach over; of each message only its outline is read."""

BULK_SPLITS: Final = 2_000
"""Of one plan, or about so many: splits are larger where there would be more."""

BULK_BROWSE_BYTES: Final = 8 * 1024 * 1024
"""Messages in one answer, and one more; whoever wants more asks again."""

BULK_APPEND_BYTES: Final = 8 * 1024 * 1024
BULK_APPEND_ROWS: Final = 50_000
"""One append: what is held in memory until it is durable."""

BULK_ANSWERS: Final = 8
"""Answers full of messages that are made at a time; others wait for their turn."""

READER_CHARACTERS: Final = 128
"""The id of a reader, and what else it is given to show again."""

READER_LEASE_MS_MIN: Final = 5_000
READER_LEASE_MS_MAX: Final = 3_600_000
"""For how long a reader keeps others away without a word."""

XML_DEPTH: Final = 16
"""Elements of a description inside one another; the SDKs need nine."""

# --- memory ---------------------------------------------------------------------

WINDOW_MESSAGES: Final = 1_000
"""Ready messages of one fragment held in memory while somebody receives."""

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""The same in bytes: large messages make the window short."""

IDLE_WINDOW_MESSAGES: Final = 16
"""Kept when nobody receives, so that 10,000 quiet entities stay small."""

IDLE_WINDOW_BYTES: Final = 64 * 1024
"""The same in bytes: sixteen of the largest messages would be megabytes."""

LOCKED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of locked messages that are kept, over the whole process. Beyond it those of
what is delivered are left to the store, and read again if a message comes back."""

CHANGED_MESSAGES: Final = 1_000
CHANGED_BYTES: Final = 2 * 1024 * 1024
"""Deliveries that ended in vain and are counted by one commit: for each a store may
have to write the whole row. Locks that end beyond it wait for the next commit."""

PENDING_BYTES: Final = 64 * 1024 * 1024
"""Accepted but not yet durable, over the whole process. Beyond it reading from
sockets pauses (D3)."""

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Unsent bytes of one connection past which nothing more is delivered to it."""

UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Unsent bytes of one connection past which nothing more is read from it: answers
to a client that does not read them."""

CLIENTS_BYTES: Final = 64 * 1024 * 1024
"""Unfinished messages, and requests and answers under way, of all AMQP connections that
have shown a key, or two of the largest messages if that is more. Beyond it those who
hold most are closed."""

CLIENT_SPARED_BYTES: Final = 64 * 1024
"""Nobody with a key is closed for holding so little: a frame."""

ANSWERS_BYTES: Final = 32 * 1024 * 1024
"""Requests and answers of one connection that were not finished or not read: a hundred
answers of a quarter of a megabyte, as many as one link may ask for, and some."""

STRANGERS_BYTES: Final = 16 * 1024 * 1024
STRANGER_BYTES: Final = 256 * 1024
STRANGER_SPARED_BYTES: Final = 16 * 1024
"""The same before any key was shown: of all such connections, of one of them, and what
nobody is closed for. A client needs a session, two links and a token to show its key,
some ten kilobytes; 256 are a few sessions and requests of the largest size."""

STRANGER_UNREAD_BYTES: Final = 64 * 1024
STRANGER_WRITE_BUFFER_BYTES: Final = 32 * 1024
"""`UNREAD_BYTES` and `WRITE_BUFFER_BYTES` before a key was shown."""

TRANSACTION_HELD_BYTES: Final = 1_024
"""An open transaction without any work in it."""

# --- transactions ---------------------------------------------------------------

TRANSACTION_MESSAGES: Final = 100
"""Messages sent in one transaction, the documented number. A setting
(`max_transaction_messages`)."""

TRANSACTION_SECONDS: Final = 120
TRANSACTION_SECONDS_MAX: Final = 86_400
"""Documented life of a transaction, from its declaration on. A setting
(`transaction_seconds`), of a day at most: it holds memory for so long."""

TRANSACTION_BYTES: Final = TRANSACTION_MESSAGES * MESSAGE_BYTES
"""What one transaction may hold in memory: as many messages as it may have, of the
largest size. A setting (`max_transaction_bytes`)."""

TRANSACTION_BYTES_MAX: Final = 1024 * 1024 * 1024

TRANSACTION_WORK_BYTES: Final = 256
"""What a piece of a transaction's work costs besides the message that it sends."""

TRANSACTIONS_BYTES: Final = 64 * 1024 * 1024
"""What the transactions of all connections may hold together, or the largest single
one if that is more: they wait for their clients, not for the disk."""

TRANSACTIONS_PER_CONNECTION: Final = 1_000
"""Transactions of one connection that are not discharged yet. A setting
(`max_transactions`)."""

CONTROL_REQUEST_BYTES: Final = 4 * 1024
"""A declare or discharge; clients need less than a hundred bytes."""

# --- connections ----------------------------------------------------------------

CONNECTIONS: Final = 5_000
"""Documented number of concurrent AMQP connections of a namespace. A setting."""

STRANGERS_PART: Final = 4
STRANGERS_MIN: Final = 250
"""Connections that have shown no key: a quarter of all, or so many where that is less.
Beyond it the oldest of them makes room for whoever comes next; a newcomer needs
milliseconds to show its key, and even a crowd of them gets its turn."""

STRANGER_GRACE_SECONDS: Final = 5
"""For so long nobody has to go for being one too many without a key, while there are
connections left: all clients are strangers when they come back after a restart."""

FILES_RESERVED: Final = 64
"""Of the files that the process may open, for those that are not connections."""

LINKS_PER_CONNECTION: Final = 1_000
SESSIONS_PER_CONNECTION: Final = 1_000

FRAME_BYTES: Final = 65_536
"""Largest frame we take, the service's own value."""

IDLE_TIMEOUT_MS: Final = 240_000
"""The service's value. Below about 70 s idle Python senders would be cut off."""

HANDSHAKE_SECONDS: Final = 20
HANDSHAKE_SECONDS_MAX: Final = 3_600
"""From TCP accept to an open connection that has shown a right (token or SASL
PLAIN), the service's value. A setting (`handshake_seconds`), of an hour at most: a
connection without a right holds a place that others need."""

PORT_MAX: Final = 65_535
"""The largest TCP port."""

CREDIT: Final = 1_000
"""Credit granted to a sending client; topped up at half."""

MANAGEMENT_CREDIT: Final = 100

KEY_CHARACTERS: Final = 12
"""Keys that are shorter are warned about: twelve random letters and digits are 70 bits,
more than anybody tries over a network, and the emulator's well-known key has thirteen
characters. A key that the bus makes has 44."""

GRANTS_PER_CONNECTION: Final = 1_000
"""Audiences for which one connection may hold a token; as many as it may have links.
Those that ended do not count."""

TOKEN_REQUEST_BYTES: Final = 64 * 1024
"""A `$cbs` request: from a stranger, so small; tokens have a few kilobytes."""

HTTP_HELD_BYTES: Final = 256 * 1024 * 1024
"""Large bodies, and answers that were not read, of all HTTP connections together."""

ENTITY_REQUEST_BYTES: Final = 64 * 1024
"""A request of the namespace's management: one entity's properties."""

MANAGEMENT_REQUEST_BYTES: Final = 1024 * 1024
"""A queue's management request, besides the largest message that it may carry."""

HTTP_HEADER_BYTES: Final = 32 * 1024
"""Request line and headers of an HTTP request; three tokens fit."""

HTTP_KEEP_ALIVE_SECONDS: Final = 120
"""How long an HTTP connection without a request is kept, if it has shown a key. One
that has not is kept for `HANDSHAKE_SECONDS`: longer than health checks are apart."""

HTTP_STRANGER_SECONDS: Final = 300
"""How long an HTTP connection lives that shows no key, though it is used: its last
answer says that it closes, which every client understands."""

METRICS_ENTITIES: Final = 1_000
"""Entities with lines of their own in `/metrics`, unless it is asked for more: every
line is kept by whoever collects them, for weeks."""

PARTIAL_DELIVERIES: Final = 16
"""Deliveries of the largest size that one connection may have half sent."""

LINKS_BYTES: Final = 8 * 1024 * 1024
"""What the links and sessions of one connection may take, and what was said when they
were attached: all of them, with some kilobytes each."""

UNSETTLED_PER_SESSION: Final = 10_000
"""Deliveries that a client may hold unsettled on one AMQP session: their messages
are in memory, which must not grow with the backlog, whatever credit a client gives."""

FREE_SESSIONS: Final = 1_000
"""Ids of free sessions that a fragment keeps in memory; the store knows the rest."""

SESSION_WAIT_MS: Final = 65_000
"""How long an attach waits for a session if the client does not say: what the SDKs
document."""

SESSION_WAIT_MS_MAX: Final = 600_000
"""And at most: what idle links are granted."""

SESSION_IDS_PER_REQUEST: Final = 1_000
"""Session ids in one answer; the SDKs ask for a hundred."""

SUBSCRIPTION_NAME_CHARACTERS: Final = 50
SUBSCRIPTIONS_PER_TOPIC: Final = 2_000
"""Documented. A setting (`max_subscriptions_per_topic`)."""

FORWARDING_HOPS: Final = 4
"""How many entities may forward a message one to the other."""

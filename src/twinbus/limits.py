"""All quotas and sizes in one place, each with the reason for its value.

Service Bus documents most of these; then the documented value is used, and the text
says so. The others protect the process from untrusted clients. What an operator can
change is in the table of `config/settings.py`; defaults and bounds of these settings
are here, too.
"""

from typing import Final

# --- settings -------------------------------------------------------------------

SETTING_COUNT_MAX: Final = 1_000_000
"""Largest value of settings that count things. A larger number is a typing mistake: no
quota of the service is larger."""

# --- messages -------------------------------------------------------------------

MESSAGE_BYTES: Final = 256 * 1024
"""Largest message, the standard tier's limit. A setting (`max_message_bytes`)."""

MESSAGE_BYTES_MIN: Final = 1024
MESSAGE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Bounds of the setting: a message with its properties needs some hundred bytes; large
messages of the premium tier have up to 100 MB."""

BATCH_BYTES: Final = 256 * 1024
"""Largest batch envelope offered to senders."""

BATCH_ENVELOPE_BYTES: Final = 4 * 1024
"""How much larger than its messages a batch may be. SDKs copy ids of its first message
into the envelope, and fill batches without counting them."""

MESSAGE_ID_CHARACTERS: Final = 128
"""MessageId, SessionId and PartitionKey: the service refuses longer ones."""

PROPERTIES_BYTES: Final = 64 * 1024
"""Header, annotations, properties and application properties together."""

TRANSFER_HEADROOM_BYTES: Final = 8 * 1024
"""How far a message between paired namespaces may exceed the limits: in a transfer
queue for properties that keep its session, times and path, elsewhere for the
annotations that identify it. Together these need less than half of it."""

SEND_ID_BYTES: Final = 64
"""Size of a send id: enough for four UUIDs, more than any client needs."""

SEND_ID_WINDOW_MS: Final = 86_400_000
SEND_ID_WINDOW_MS_MIN: Final = 60_000
SEND_ID_WINDOW_MS_MAX: Final = 366 * 86_400_000
"""How long send ids are remembered; a longer outage may cause duplicates. A setting
(`send_id_window`), limited because remembered ids need space."""

RESTORE_SOURCE_CHARACTERS: Final = 512
"""The source of a restored message: a host and an entity's path, and some reserve."""

RESTORE_GENERATION_CHARACTERS: Final = 128
"""The generation of a restored message's source; a UUID has 36."""

DEAD_LETTER_TEXT_CHARACTERS: Final = 4096
"""Reason and description of a dead letter; longer texts are refused."""

# --- messages between stores ----------------------------------------------------

OUTBOX_BYTES: Final = 1024 * 1024 * 1024
"""Messages that a store holds for other stores: a whole entity of the default size."""

OUTBOX_PORTION: Final = 500
OUTBOX_PORTION_BYTES: Final = 1024 * 1024
"""Messages that are carried from one store to another at a time. Each portion is a
commit in both; a larger one keeps others waiting."""

TRANSFER_LIMIT_MS: Final = 900_000
TRANSFER_LIMIT_MS_MIN: Final = 1_000
TRANSFER_LIMIT_MS_MAX: Final = 7 * 86_400_000
"""How long a store may be away while messages are still accepted for it. A setting
(`transfer_limit`). Service Bus documents 15 minutes."""

# --- entities -------------------------------------------------------------------

ENTITY_PATH_CHARACTERS: Final = 260
"""Documented length of a queue or topic name."""

ENTITIES_PER_NAMESPACE: Final = 10_000
"""Documented number of entities of a namespace. A setting."""

NAMESPACES: Final = 1_000
"""On one server. Each takes some kilobytes, and a visit at each tick."""

NAMESPACE_NAME_CHARACTERS: Final = 50
"""Documented length of a namespace's name."""

PORTS_PER_NAMESPACE: Final = 4

LOCK_DURATION_MS: Final = 60_000
LOCK_DURATION_MS_MIN: Final = 5_000
LOCK_DURATION_MS_MAX: Final = 300_000

MAX_DELIVERY_COUNT: Final = 10
MAX_DELIVERY_COUNT_MAX: Final = 2_147_483_647

MAX_SIZE_IN_MEGABYTES: Final = (
    *(1024, 2048, 3072, 4096, 5120),
    *(10_240, 20_480, 40_960, 81_920),
)
"""Sizes of all tiers, those of the standard tier first; the first is the default."""

ENTITY_MEGABYTES: Final = 5120
"""The largest of them that is allowed: the standard tier's. A setting
(`max_entity_megabytes`)."""

DUPLICATE_WINDOW_MS: Final = 600_000
DUPLICATE_WINDOW_MS_MIN: Final = 20_000
DUPLICATE_WINDOW_MS_MAX: Final = 7 * 86_400_000
"""How long message ids are remembered: documented default and bounds."""

AUTO_DELETE_ON_IDLE_MS_MIN: Final = 300_000
"""Documented: an idle entity is kept for at least five minutes."""

USER_METADATA_CHARACTERS: Final = 1024

DURATION_MS_UNLIMITED: Final = 10_675_199 * 86_400_000
"""TimeSpan.MaxValue in whole days. SDKs round larger values, so every duration from
here on means "no limit"."""

FRAGMENTS_PER_STORE: Final = 65_536
"""The fragment number has sixteen bits of a row id."""

FRAGMENTS_PER_ENTITY: Final = 16
"""Documented number of fragments of a partitioned entity. A setting (`fragments`)."""

FRAGMENTS_PER_ENTITY_MAX: Final = 256
"""Each attached receiver is served by each fragment, so more would make links slow."""

ACCESS_RULES: Final = 12
"""Authorization rules of the namespace, with the root rule, and of each entity: the
documented value."""

KEY_NAME_CHARACTERS: Final = 256
"""Name of an authorization rule: the documented value."""

ACCESS_KEY_CHARACTERS: Final = 256
"""A key that a client gives. One that the bus makes has 44."""

PARTITIONED_ENTITIES: Final = 100
"""Documented number of partitioned entities of a namespace. A setting
(`max_partitioned_entities`)."""

FRAGMENT_MEGABYTES: Final = 5120
"""Documented: each fragment of a partitioned entity has one of the five sizes of the
standard tier."""

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
"""Nesting of operators in a SQL text. Rules are evaluated by recursion, and a client
must not control the depth of our stack."""

LIKE_PATTERN_CHARACTERS: Final = 1024
"""A pattern that comes from a message may not be longer than one in a filter."""

RULE_TEXT_STEPS: Final = 500_000
"""Steps that all filters of a topic may spend on the texts of one message: at most 50
ms with compiled rules. A thousand LIKEs can search a text of 60 KB without a match."""

RULE_VALUES: Final = 64
"""Parameters of a filter or action, properties of a correlation filter."""

RULE_VALUE_CHARACTERS: Final = 1024
"""A parameter or property of a rule, as text: not longer than a filter itself."""

# --- limits of one request ------------------------------------------------------

PEEK_COUNT: Final = 250
PEEK_BYTES: Final = 256 * 1024
"""Beyond this size a peek returns fewer messages than requested."""

DEFERRED_BYTES: Final = 16 * 1024 * 1024
"""Deferred messages that one request receives, if there is more than one: the answer is
one AMQP message, which is in memory as a whole, several times."""

BATCH_DELETE_COUNT: Final = 4000
"""Messages that one batch delete may remove: the premium tier's number."""

SEQUENCE_NUMBERS_PER_REQUEST: Final = 4096
"""Sequence numbers or lock tokens in one management request."""

REQUEST_VALUES: Final = 65_536
"""AMQP values in one management request, including nested ones. Decoding takes about a
microsecond each, and blocks all clients; a full schedule request has 50,000."""

SCHEDULE_PER_REQUEST: Final = 4096
"""Messages in one schedule request; their size is limited by the message limit."""

CANCEL_SENT_PER_REQUEST: Final = 100
"""Send ids in one request to cancel; each is compared with every scheduled message."""

ENTITIES_PER_PAGE: Final = 100
"""Entries in one page of a list; the SDKs ask for this number."""

BULK_REQUEST_BYTES: Final = 1024 * 1024
"""A bulk request in JSON: a thousand entities, or about ten thousand numbers."""

BULK_ENTITIES: Final = 1_000
"""Entities in one bulk request; each costs a check of the token."""

BULK_NUMBERS: Final = 10_000
"""Sequence numbers that one bulk request settles individually."""

BULK_SESSIONS: Final = 100
"""Sessions that one browse asks for; the id of each message is looked up among them."""

BULK_PLAN_MESSAGES: Final = 1_000_000
BULK_PLAN_BYTES: Final = 64 * 1024 * 1024 * 1024
"""Messages and bytes of one plan; only the outline of each message is read."""

BULK_SPLITS: Final = 2_000
"""Splits of one plan, approximately: if there would be more, they are made larger."""

BULK_BROWSE_BYTES: Final = 8 * 1024 * 1024
"""Messages in one answer, and one more; for more, clients ask again."""

BULK_APPEND_BYTES: Final = 8 * 1024 * 1024
BULK_APPEND_ROWS: Final = 50_000
"""Size of one append, which is in memory until it is durable."""

BULK_PEER_BYTES: Final = 16 * 1024 * 1024
"""What one broker asks another for a bulk request: an append, or a plan for each
fragment of a thousand entities."""

BULK_ANSWERS: Final = 8
"""Large answers that are made at the same time; other requests wait."""

READER_CHARACTERS: Final = 128
"""Length of a reader's id, and of other ids that it gets and sends again."""

READER_LEASE_MS_MIN: Final = 5_000
READER_LEASE_MS_MAX: Final = 3_600_000
"""How long a reader keeps its lease without renewing it."""

XML_DEPTH: Final = 16
"""Nesting of elements in a description; the SDKs need nine."""

# --- memory ---------------------------------------------------------------------

WINDOW_MESSAGES: Final = 1_000
"""Ready messages of one fragment in memory while it has receivers."""

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""The same in bytes: with large messages the window is shorter."""

IDLE_WINDOW_MESSAGES: Final = 16
"""Kept without receivers, so that 10,000 quiet entities need little memory."""

IDLE_WINDOW_BYTES: Final = 64 * 1024
"""The same in bytes: sixteen of the largest messages would be megabytes."""

LOCKED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of locked messages that are kept in memory, over the whole process. Beyond it,
delivered messages are only in the store, and read again if they return."""

CHANGED_MESSAGES: Final = 1_000
CHANGED_BYTES: Final = 2 * 1024 * 1024
"""Failed deliveries that one commit counts: for each a store may have to write the
whole row. Further locks that end wait for the next commit."""

PENDING_BYTES: Final = 64 * 1024 * 1024
"""Bytes accepted but not yet durable, over the whole process. Beyond this limit,
reading from sockets pauses."""

BROKERS_MAX: Final = 64
"""Processes that `twinbus serve` starts. More than a machine has cores do not help."""

SYNC_SECONDS: Final = 10
"""How long a sync of one of several stores may take. Then its outcome counts as
unknown, and the store is out of service until its disk answers. Clients wait for 60
seconds, so they are told before they give up by themselves."""

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Unsent bytes of one connection beyond which no more messages are delivered to it."""

UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Unsent bytes of one connection beyond which nothing more is read from it, because the
client does not read its answers."""

CLIENTS_BYTES: Final = 64 * 1024 * 1024
"""Unfinished messages, and requests and answers in progress, of all AMQP connections
that have shown a key, or two of the largest messages if that is more. Beyond it, the
connections that hold most are closed."""

CLIENT_SPARED_BYTES: Final = 64 * 1024
"""A connection with a key is not closed for holding this much: a frame."""

ANSWERS_BYTES: Final = 32 * 1024 * 1024
"""Requests and answers of one connection that are not finished or not read: a
hundred answers of a quarter of a megabyte, as many as one link may ask for, and some
reserve."""

STRANGERS_BYTES: Final = 16 * 1024 * 1024
STRANGER_BYTES: Final = 256 * 1024
STRANGER_SPARED_BYTES: Final = 16 * 1024
"""The same before a key was shown: for all such connections, for one of them, and what
no connection is closed for. To show its key, a client needs a session, two links and a
token, about ten kilobytes; 256 are a few sessions and requests of the largest size."""

STRANGER_UNREAD_BYTES: Final = 64 * 1024
STRANGER_WRITE_BUFFER_BYTES: Final = 32 * 1024
"""`UNREAD_BYTES` and `WRITE_BUFFER_BYTES` before a key was shown."""

TRANSACTION_HELD_BYTES: Final = 1_024
"""Memory of an open transaction without work."""

# --- transactions ---------------------------------------------------------------

TRANSACTION_MESSAGES: Final = 100
"""Messages sent in one transaction, the documented number. A setting
(`max_transaction_messages`)."""

TRANSACTION_SECONDS: Final = 120
TRANSACTION_SECONDS_MAX: Final = 86_400
"""Documented lifetime of a transaction, from its declaration. A setting
(`transaction_seconds`), a day at most, because it holds memory."""

TRANSACTION_BYTES: Final = TRANSACTION_MESSAGES * MESSAGE_BYTES
"""Memory of one transaction: the largest number of messages, of the largest size. A
setting (`max_transaction_bytes`)."""

TRANSACTION_BYTES_MAX: Final = 1024 * 1024 * 1024

TRANSACTION_WORK_BYTES: Final = 256
"""Memory of a piece of work, besides the message that it sends."""

TRANSACTIONS_BYTES: Final = 64 * 1024 * 1024
"""Memory of the transactions of all connections, or the largest single one if that is
more: they wait for their clients, not for the disk."""

TRANSACTIONS_PER_CONNECTION: Final = 1_000
"""Transactions of one connection that are not discharged yet. A setting
(`max_transactions`)."""

CONTROL_REQUEST_BYTES: Final = 4 * 1024
"""Size of a declare or discharge; clients need less than a hundred bytes."""

# --- throttling -----------------------------------------------------------------

THROTTLE_MEMORY_PERCENT: Final = 90
"""Of the memory that the process may have: a setting. Above it the system would soon
end the process. The CPU has no threshold by default: credit limits what clients send,
so a bus that is busy all the time is no trouble."""

THROTTLE_COMMIT_MS: Final = 5_000
THROTTLE_COMMIT_MS_MAX: Final = 600_000
"""Mean duration of commits above which a store takes no more messages: a setting. A
healthy disk needs a thousandth of it; at this pace, clients would time out instead."""

THROTTLE_CPU_PERCENT_MAX: Final = 10_000
THROTTLE_MEGABYTES_MAX: Final = 1_000_000

COMMITS_REMEMBERED: Final = 100
"""The last commits of each store that a diagnosis shows."""

# --- diagnosis ------------------------------------------------------------------

WATCHDOG_SECONDS: Final = 30
WATCHDOG_SECONDS_MAX: Final = 3_600
"""A loop that does not turn for so long is stuck: a setting. A commit on a bad disk may
take seconds; clients give up after a minute."""

DIAGNOSES: Final = 10
DIAGNOSES_MAX: Final = 1_000
"""Diagnoses that are kept: a setting. A bus that is restarted again and again must not
fill the disk."""

DIAGNOSIS_PART_BYTES: Final = 2 * 1024 * 1024
"""Size of one file of a diagnosis; there are eight."""

DIAGNOSIS_FRAGMENTS: Final = 1_000
"""Fragments of each store that a diagnosis shows."""

# --- faults ---------------------------------------------------------------------

FAULTS: Final = 100
"""Faults that may be set at a time: each operation looks at all of them."""

# --- connections ----------------------------------------------------------------

CONNECTIONS: Final = 5_000
"""Documented number of concurrent AMQP connections of a namespace. A setting."""

STRANGERS_PART: Final = 4
STRANGERS_MIN: Final = 250
"""Connections that have shown no key: a quarter of all, at least this many. Beyond it,
the oldest of them is closed for each new one. A client needs milliseconds to show its
key, so even in a crowd each gets its turn."""

STRANGER_GRACE_SECONDS: Final = 5
"""A connection without a key is not closed for this reason before so many seconds,
while there are free connections: after a restart all clients come back at once, without
a key at first."""

FILES_RESERVED: Final = 64
"""Files that the process may open besides connections."""

LINKS_PER_CONNECTION: Final = 1_000
SESSIONS_PER_CONNECTION: Final = 1_000

FRAME_BYTES: Final = 65_536
"""Largest frame that we accept, the service's value."""

WEBSOCKET_FRAME_BYTES: Final = 128 * 1024 * 1024
"""Largest frame of a WebSocket: more than the largest message, which a client may put
into one. Nothing of it is held, since payload is given on as it arrives."""

IDLE_TIMEOUT_MS: Final = 240_000
"""The service's value. Below about 70 s idle Python senders would be disconnected."""

HANDSHAKE_SECONDS: Final = 20
HANDSHAKE_SECONDS_MAX: Final = 3_600
"""From TCP accept to an open connection that has shown a key (by token or SASL PLAIN),
the service's value. A setting (`handshake_seconds`), an hour at most, because such a
connection takes the place of others."""

PORT_MAX: Final = 65_535
"""The largest TCP port."""

CREDIT: Final = 1_000
"""Credit granted to a sending client; renewed when half is used."""

MANAGEMENT_CREDIT: Final = 100

KEY_CHARACTERS: Final = 12
"""Shorter keys cause a warning: twelve random letters and digits are 70 bits, more than
can be tried over a network; the emulator's well-known key has thirteen characters. A
key that the bus makes has 44."""

GRANTS_PER_CONNECTION: Final = 1_000
"""Audiences for which one connection may hold a token; as many as it may have links.
Expired ones do not count."""

FAILED_PROOFS: Final = 100
FAILED_PROOFS_MAX: Final = 1_000_000
"""Wrong keys and signatures of one address with one key name before the next attempt
has to wait. A setting (`max_failed_attempts`). Clients that still have a key that was
regenerated try every few seconds; a key of twelve characters needs 10**20 attempts."""

FAILED_PROOFS_WAIT_MS: Final = 1_000
FAILED_PROOFS_WAIT_MS_MAX: Final = 30_000
"""How long the next attempt has to wait: twice as long after each one that fails. Not
longer, because others behind the same address wait, too."""

FAILED_PROOFS_FORGOTTEN_MS: Final = 300_000
"""Failures are forgotten when none was added for so long."""

FAILED_PROOFS_ADDRESSES: Final = 4_096
FAILED_PROOFS_NAMES: Final = 16
"""Addresses that are remembered, and key names of each; more names are counted
together, and the address that failed longest ago is forgotten first. 20 MB at most."""

TOKEN_REQUEST_BYTES: Final = 64 * 1024
"""Size of a `$cbs` request. It is small because the client is not authenticated; tokens
have a few kilobytes."""

HTTP_HELD_BYTES: Final = 256 * 1024 * 1024
"""Large bodies and unread responses of all HTTP connections together."""

ENTITY_REQUEST_BYTES: Final = 64 * 1024
"""Size of a management request of the namespace: the properties of one entity."""

MANAGEMENT_REQUEST_BYTES: Final = 1024 * 1024
"""Size of a management request of an entity, without the largest message in it."""

HTTP_HEADER_BYTES: Final = 32 * 1024
"""Request line and headers of an HTTP request; enough for three tokens."""

HTTP_KEEP_ALIVE_SECONDS: Final = 120
"""How long an idle HTTP connection is kept if it has shown a key. Without a key it is
kept for `HANDSHAKE_SECONDS`: longer than the interval of health checks."""

HTTP_WAIT_SECONDS: Final = 60
HTTP_WAIT_SECONDS_MAX: Final = 240
"""How long a receive over HTTP waits for a message if it does not say so, and at most.
Many proxies cut a connection that is silent for four or five minutes."""

HTTP_STRANGER_SECONDS: Final = 300
"""Lifetime of an HTTP connection without a key, even if it is used: the last response
says that it closes, which every client understands."""

METRICS_ENTITIES: Final = 1_000
"""Entities with lines of their own in `/metrics`, unless more are requested: the
collector stores every line for weeks."""

METRICS_PAGES: Final = 2
"""Pages of metrics that are made at the same time; other requests wait."""

PARTIAL_DELIVERIES: Final = 16
"""Deliveries of the largest size that one connection may have partly sent."""

LINKS_BYTES: Final = 8 * 1024 * 1024
"""Memory of the links and sessions of one connection, and of their attach frames: some
kilobytes each."""

UNSETTLED_PER_SESSION: Final = 10_000
"""Deliveries that a client may hold unsettled on one AMQP session: their messages are
in memory, which must not grow with the backlog, whatever the credit."""

FREE_SESSIONS: Final = 1_000
"""Ids of free sessions that a fragment keeps in memory; the others are in the store."""

SESSION_WAIT_MS: Final = 65_000
"""How long an attach waits for a session by default; the SDKs document it."""

SESSION_WAIT_MS_MAX: Final = 600_000
"""The longest wait that a client can ask for: that of idle links."""

SESSION_IDS_PER_REQUEST: Final = 1_000
"""Session ids in one answer; the SDKs ask for a hundred."""

SUBSCRIPTION_NAME_CHARACTERS: Final = 50
SUBSCRIPTIONS_PER_TOPIC: Final = 2_000
"""Documented. A setting (`max_subscriptions_per_topic`)."""

FORWARDING_HOPS: Final = 4
"""How many times a message may be forwarded from entity to entity."""

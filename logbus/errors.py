"""
Kafka's error codes, and the exceptions of logbus. Pure.

There are four families of exceptions, by the action they require:

* :class:`ProtocolError`: a peer violated framing or a message's schema: log it, and close the connection.
* :class:`ApiError`: a request failed with one of Kafka's codes: answer with the code, and keep the connection.
* :class:`StorageError`: a log directory failed: take it offline.
* :class:`ConfigError`: a setting is wrong: report the key and what is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

LONGEST_MESSAGE = 2000
"""Characters of a message for a client, which may quote its request."""


class ErrorCode(IntEnum):
    """
    The error codes of the Kafka protocol (kafka.apache.org/protocol, "Error Codes").

    :ivar retriable: whether the same request may succeed later.
    :ivar sentence: its meaning, for logs and for ``error_message`` fields.
    """

    retriable: bool
    sentence: str

    def __new__(cls, code: int, retriable: bool, sentence: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.sentence = sentence
        return member

    UNKNOWN_SERVER_ERROR = (-1, False, "The server experienced an unexpected error when processing the request.")
    NONE = (0, False, "No error.")
    OFFSET_OUT_OF_RANGE = (1, False, "The requested offset is not within the range of offsets kept for the partition.")
    CORRUPT_MESSAGE = (2, True, "The message failed its CRC check, exceeds the valid size, or is otherwise corrupt.")
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, "This server does not host this topic-partition.")
    INVALID_FETCH_SIZE = (4, False, "The requested fetch size is invalid.")
    LEADER_NOT_AVAILABLE = (5, True, "There is no leader for this topic-partition at the moment.")
    NOT_LEADER_OR_FOLLOWER = (6, True, "This broker is not the leader, or not a replica, of the topic-partition.")
    REQUEST_TIMED_OUT = (7, True, "The request timed out.")
    BROKER_NOT_AVAILABLE = (8, False, "The broker is not available.")
    REPLICA_NOT_AVAILABLE = (9, True, "The replica is not available for the requested topic-partition.")
    MESSAGE_TOO_LARGE = (10, False, "The request includes a message larger than the server accepts.")
    STALE_CONTROLLER_EPOCH = (11, False, "The controller moved to another broker.")
    OFFSET_METADATA_TOO_LARGE = (12, False, "The metadata of the committed offset is too large.")
    NETWORK_EXCEPTION = (13, True, "The server disconnected before a response was received.")
    COORDINATOR_LOAD_IN_PROGRESS = (14, True, "The coordinator is loading and cannot process requests yet.")
    COORDINATOR_NOT_AVAILABLE = (15, True, "The coordinator is not available.")
    NOT_COORDINATOR = (16, True, "This is not the correct coordinator.")
    INVALID_TOPIC_EXCEPTION = (17, False, "The request names a topic that is not valid.")
    RECORD_LIST_TOO_LARGE = (18, False, "The request includes a record batch larger than a segment of the log.")
    NOT_ENOUGH_REPLICAS = (19, True, "Fewer replicas are in sync than min.insync.replicas demands.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, True, "The records were written to fewer in-sync replicas than required.")
    INVALID_REQUIRED_ACKS = (21, False, "The acks of a produce request must be 0, 1 or -1.")
    ILLEGAL_GENERATION = (22, False, "The group generation id is not the current one.")
    INCONSISTENT_GROUP_PROTOCOL = (23, False, "The member's protocols are incompatible with those of the group.")
    INVALID_GROUP_ID = (24, False, "The group id is not valid.")
    UNKNOWN_MEMBER_ID = (25, False, "The coordinator does not know this member.")
    INVALID_SESSION_TIMEOUT = (26, False, "The session timeout is outside the range the broker allows.")
    REBALANCE_IN_PROGRESS = (27, False, "The group is rebalancing; the member should rejoin.")
    INVALID_COMMIT_OFFSET_SIZE = (28, False, "The size of the committing offset data is not valid.")
    TOPIC_AUTHORIZATION_FAILED = (29, False, "Topic authorization failed.")
    GROUP_AUTHORIZATION_FAILED = (30, False, "Group authorization failed.")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, "Cluster authorization failed.")
    INVALID_TIMESTAMP = (32, False, "The timestamp of the message is out of the acceptable range.")
    UNSUPPORTED_SASL_MECHANISM = (33, False, "The broker does not support the requested SASL mechanism.")
    ILLEGAL_SASL_STATE = (34, False, "The request is not valid in the current SASL state.")
    UNSUPPORTED_VERSION = (35, False, "The version of the API is not supported.")
    TOPIC_ALREADY_EXISTS = (36, False, "A topic with this name already exists.")
    INVALID_PARTITIONS = (37, False, "The number of partitions is below 1 or not allowed.")
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or larger than the number of available brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = (39, False, "The replica assignment is not valid.")
    INVALID_CONFIG = (40, False, "The configuration is not valid.")
    NOT_CONTROLLER = (41, True, "This is not the controller of the cluster.")
    INVALID_REQUEST = (42, False, "The request is malformed or asks for something impossible.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, False, "The message format on the broker does not support the request.")
    POLICY_VIOLATION = (44, False, "The request violates a policy of the broker.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, False, "The broker received an out of order sequence number.")
    DUPLICATE_SEQUENCE_NUMBER = (46, False, "The broker received a duplicate sequence number.")
    INVALID_PRODUCER_EPOCH = (47, False, "The producer attempted to produce with an old epoch.")
    INVALID_TXN_STATE = (48, False, "The producer attempted a transactional operation in an invalid state.")
    INVALID_PRODUCER_ID_MAPPING = (49, False, "The producer id is not assigned to this transactional id.")
    INVALID_TRANSACTION_TIMEOUT = (50, False, "The transaction timeout is larger than the broker allows.")
    CONCURRENT_TRANSACTIONS = (51, True, "Another operation on the same transaction is under way.")
    TRANSACTION_COORDINATOR_FENCED = (52, False, "The coordinator that sent the marker is no longer current.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, False, "Transactional id authorization failed.")
    SECURITY_DISABLED = (54, False, "Security features are disabled.")
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "The broker did not attempt the operation, because another part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = (56, True, "The log directory of the partition failed.")
    LOG_DIR_NOT_FOUND = (57, False, "The log directory is not configured on this broker.")
    SASL_AUTHENTICATION_FAILED = (58, False, "SASL authentication failed.")
    UNKNOWN_PRODUCER_ID = (59, False, "The broker has no metadata of this producer id.")
    REASSIGNMENT_IN_PROGRESS = (60, False, "A partition reassignment is in progress.")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, "Delegation tokens are not enabled.")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, "The delegation token is not known.")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, False, "The principal does not own or may not renew the delegation token.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, False, "Delegation token requests are not allowed on this connection.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, False, "Delegation token authorization failed.")
    DELEGATION_TOKEN_EXPIRED = (66, False, "The delegation token is expired.")
    INVALID_PRINCIPAL_TYPE = (67, False, "The principal type is not supported.")
    NON_EMPTY_GROUP = (68, False, "The group is not empty.")
    GROUP_ID_NOT_FOUND = (69, False, "The group id does not exist.")
    FETCH_SESSION_ID_NOT_FOUND = (70, True, "The fetch session id is not known.")
    INVALID_FETCH_SESSION_EPOCH = (71, True, "The fetch session epoch is not the expected one.")
    LISTENER_NOT_FOUND = (72, True, "The leader has no listener of the name the request came in on.")
    TOPIC_DELETION_DISABLED = (73, False, "Deleting topics is disabled.")
    FENCED_LEADER_EPOCH = (74, True, "The leader epoch in the request is older than the broker's.")
    UNKNOWN_LEADER_EPOCH = (75, True, "The leader epoch in the request is newer than the broker's.")
    UNSUPPORTED_COMPRESSION_TYPE = (76, False, "The client does not support the compression type of the partition.")
    STALE_BROKER_EPOCH = (77, False, "The broker epoch has changed.")
    OFFSET_NOT_AVAILABLE = (78, True, "The high watermark has not caught up since the last election.")
    MEMBER_ID_REQUIRED = (79, False, "The member must join again with the member id it was given.")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, True, "The preferred leader is not available.")
    GROUP_MAX_SIZE_REACHED = (81, False, "The group has reached its maximum size.")
    FENCED_INSTANCE_ID = (82, False, "Another member with the same group.instance.id took over.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, "No eligible leader is available.")
    ELECTION_NOT_NEEDED = (84, True, "The partition needs no election.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, "No partition reassignment is in progress.")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, False, "The group is subscribed to the topic; its offsets cannot be deleted.")
    INVALID_RECORD = (87, False, "The record failed validation on the broker and was rejected.")
    UNSTABLE_OFFSET_COMMIT = (88, True, "There are offsets of open transactions that need to be cleared.")
    THROTTLING_QUOTA_EXCEEDED = (89, True, "The throttling quota is exceeded.")
    PRODUCER_FENCED = (90, False, "A newer producer with the same transactional id fences this one.")
    RESOURCE_NOT_FOUND = (91, False, "The resource is not found.")
    DUPLICATE_RESOURCE = (92, False, "The resource already exists.")
    UNACCEPTABLE_CREDENTIAL = (93, False, "The credential does not meet the criteria.")
    INCONSISTENT_VOTER_SET = (94, False, "The voter sets differ.")
    INVALID_UPDATE_VERSION = (95, False, "The given update version is not valid.")
    FEATURE_UPDATE_FAILED = (96, False, "The finalized features could not be updated.")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, False, "The forwarded principal could not be read.")
    SNAPSHOT_NOT_FOUND = (98, False, "The snapshot is not found.")
    POSITION_OUT_OF_RANGE = (99, False, "The position is not in the snapshot.")
    UNKNOWN_TOPIC_ID = (100, True, "This server does not host this topic id.")
    DUPLICATE_BROKER_REGISTRATION = (101, False, "The broker id is already registered.")
    BROKER_ID_NOT_REGISTERED = (102, False, "The broker id is not registered.")
    INCONSISTENT_TOPIC_ID = (103, True, "The topic id does not match the one in the log.")
    INCONSISTENT_CLUSTER_ID = (104, False, "The cluster id in the request is not this cluster's.")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, "The transactional id is not found.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, "The fetch session mixed topic names and topic ids.")
    INELIGIBLE_REPLICA = (107, False, "The new in-sync set contains an ineligible replica.")
    NEW_LEADER_ELECTED = (108, False, "The change completed the election of a new leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, False, "The requested offset is in tiered storage.")
    FENCED_MEMBER_EPOCH = (110, False, "The coordinator fenced the member epoch.")
    UNRELEASED_INSTANCE_ID = (111, False, "The instance id is still used by another member.")
    UNSUPPORTED_ASSIGNOR = (112, False, "The assignor is not supported by the group.")
    STALE_MEMBER_EPOCH = (113, False, "The member epoch is stale.")
    MISMATCHED_ENDPOINT_TYPE = (114, False, "The request was sent to an endpoint of the wrong type.")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, "The endpoint type is not supported.")
    UNKNOWN_CONTROLLER_ID = (116, False, "The controller id is not known.")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, "The telemetry subscription id is not valid or outdated.")
    TELEMETRY_TOO_LARGE = (118, False, "The telemetry is larger than the broker accepts.")
    INVALID_REGISTRATION = (119, False, "The registration is not valid.")
    TRANSACTION_ABORTABLE = (120, False, "The transaction met an error; it can be aborted and tried again.")
    INVALID_RECORD_STATE = (121, False, "The state of the record does not allow the acknowledgement.")
    SHARE_SESSION_NOT_FOUND = (122, True, "The share session is not found.")
    INVALID_SHARE_SESSION_EPOCH = (123, True, "The share session epoch is not valid.")
    FENCED_STATE_EPOCH = (124, False, "The share coordinator rejected the state epoch.")
    INVALID_VOTER_KEY = (125, False, "The voter key does not match.")
    DUPLICATE_VOTER = (126, False, "The voter is already in the set.")
    VOTER_NOT_FOUND = (127, False, "The voter is not in the set.")
    INVALID_REGULAR_EXPRESSION = (128, False, "The regular expression is not valid.")
    REBOOTSTRAP_REQUIRED = (129, False, "The client's metadata is stale; it should bootstrap again.")
    STREAMS_INVALID_TOPOLOGY = (130, False, "The topology of the streams application is not valid.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, False, "The topology epoch is not valid.")
    STREAMS_TOPOLOGY_FENCED = (132, False, "The topology epoch is older than that of the group.")
    SHARE_SESSION_LIMIT_REACHED = (133, True, "The broker has as many share sessions as it may.")


class LogbusError(Exception):
    """The base class of all exceptions of logbus."""


class ApiError(LogbusError):
    """
    A request, or a part of it, failed with one of Kafka's codes.

    :param code: the code for the client.
    :param message: details (names, offsets, epochs); default: the code's own sentence. The middle of a message longer
        than
        :data:`LONGEST_MESSAGE` is left out, since it may quote a client's request.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        if message and len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2
            message = f"{message[:half]} ... {message[-half:]}"
        super().__init__(message or code.sentence)
        self.code = code

    @property
    def message(self) -> str:
        """The message for the client."""
        return str(self.args[0])

    def without_frames(self) -> ApiError:
        """
        This error, without where it was raised.

        An error that is kept in a result refers to the frames that it passed, and one of them to the result: only the
        garbage collector frees such a circle.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __repr__(self) -> str:
        return f"<ApiError {self.code.name}: {self.message}>"

    def __reduce__(self) -> tuple[type[ApiError], tuple[object, ...]]:
        return ApiError, (self.code, self.message)


_BY_CODE = {int(code): code for code in ErrorCode}


def error_of(code: int, message: str | None = None) -> ApiError:
    """Return the error for a code in a response; an unknown code becomes UNKNOWN_SERVER_ERROR."""
    known = _BY_CODE.get(code)
    if known is None:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"error {code}, which is not known here")
    return ApiError(known, message)


class RecordsRefused(ApiError):
    """
    A batch is refused because of some of its records (KIP-467).

    :param records: index in the batch and reason of each.
    """

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records

    def __reduce__(self) -> tuple[type[ApiError], tuple[object, ...]]:
        return RecordsRefused, (self.code, self.message, self.records)


class ProtocolError(LogbusError):
    """A peer violated framing or a message's schema: the connection must be closed."""


class DecodeError(ProtocolError):
    """Bytes cannot be decoded as the message they should be."""


class FrameTooLarge(ProtocolError):
    """A frame announces more bytes than the limit, or a negative length."""


class BudgetExceeded(DecodeError):
    """A message has more elements than a request may have."""


class Disconnected(LogbusError):
    """The connection was lost before the response came; whether the request was served is unknown."""


class RequestTimedOut(Disconnected):
    """
    No response in time. Responses come in the order of the requests, so later ones cannot be received either: the
    connection is closed.
    """


class StorageError(LogbusError):
    """A log directory failed."""


class ConfigError(LogbusError):
    """A configuration key, option or file is wrong; the message names it and what is accepted."""


def short_reason(error: Exception) -> str:
    """Say why something failed: an OSError without its number, and where a file is not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return f"it is not UTF-8: line {line} has the byte 0x{error.object[error.start]:02x}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

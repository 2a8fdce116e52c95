"""All events that Outcry logs, with their level, meaning and what to do.

`docs/reference/logs.md` is generated from this table.

The ids are stable, so that operators can alert on them. A test compares the table with the calls in the source.
"""

from enum import StrEnum
from typing import Any, Literal, Protocol, Self

Level = Literal["info", "warning", "error"]


class LogEvent(StrEnum):
    """An event in the log. The value is the id in the field `event` of a log line."""

    level: Level
    meaning: str
    action: str

    def __new__(cls, event_id: str, level: Level, meaning: str, action: str = "") -> Self:
        """Create a member from its id, level, meaning and remedy."""
        member = str.__new__(cls, event_id)
        member._value_ = event_id
        member.level, member.meaning, member.action = level, meaning, action
        return member

    # HTTP server
    REQUEST = "request", "info", "One HTTP request was answered."
    LIBRARY_MESSAGE = (
        "library_message", "info", "A message of the HTTP server library uvicorn. Its errors have the level `error`.",
        "Read `message`.",
    )  # fmt: skip
    UNTESTED_UVICORN = (
        "untested_uvicorn", "warning", "The installed uvicorn `version` is outside the range `tested`. Requests take "
        "the ordinary route: slower, without connection limits and request timeouts.",
        "Install a tested version: pip install 'uvicorn>=0.34,<0.55'.",
    )  # fmt: skip
    LOG_LINES_DROPPED = (
        "log_lines_dropped", "warning", "`lines` log lines were dropped; the reader of standard error was too slow.",
        "Check the disk or the program that reads the log.",
    )  # fmt: skip
    REQUEST_FAILED = (
        "request_failed", "error", "An unexpected error; the client received status 500.",
        "Report the traceback in `exception` as a bug.",
    )  # fmt: skip
    PAGE_FAILED = (
        "page_failed", "error", "An unexpected error on a web page; the user received status 500.",
        "Report the traceback in `exception` as a bug.",
    )  # fmt: skip
    EVENT_STREAM_FAILED = (
        "event_stream_failed", "error", "An unexpected error ended the event streams of a symbol; clients reconnect.",
        "Report the traceback in `exception` as a bug.",
    )  # fmt: skip
    TOO_MANY_CONNECTIONS = (
        "too_many_connections", "warning", "A client reached `connections_per_client`; new connections are closed.",
        "Find out who uses the IP address `client`. Raise the limit if its use is legitimate.",
    )  # fmt: skip
    OUT_OF_DESCRIPTORS = (
        "out_of_descriptors", "warning", "The process runs out of file descriptors; new connections are closed.",
        "Raise the limit of open files (`ulimit -n`, `LimitNOFILE`).",
    )  # fmt: skip
    DATABASE_AVAILABLE = "database_available", "info", "The database responds again."
    DATABASE_UNAVAILABLE = (
        "database_unavailable", "error", "The database does not respond; answers come from memory or fail with 502.",
        "Check the database and its disk.",
    )  # fmt: skip

    # Streams of live feeds
    LIVE_START_FAILED = (
        "live_start_failed", "error", "The live engine could not start.", "Read `problem`; restart the service."
    )  # fmt: skip
    BACKGROUND_TASK_FAILED = (
        "background_task_failed", "error",
        "An unexpected error in the background task `task`. A periodic task continues; any other stops until the next "
        "start.",
        "Report `problem` as a bug; restart the service.",
    )  # fmt: skip
    FEED_REJECTED = (
        "feed_rejected", "warning", "The vendor rejected the feed permanently, for the reason in `code`.",
        "Correct the connection: credentials, entitlement or contract.",
    )  # fmt: skip
    FEED_LOST = (
        "feed_lost", "warning", "A feed lost its connection, for the reason in `code`; it reconnects automatically.",
        "If it continues, check the network and the vendor's status.",
    )  # fmt: skip
    FEED_FAILED = (
        "feed_failed", "error", "An unexpected error in a feed; it restarts automatically.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    FEED_STATUS_CHANGED = (
        "feed_status_changed", "info", "A feed of the agent changed its status to `phase`.",
        "If it stays `lost`, look up `code` in [live feeds](../guides/live.md).",
    )  # fmt: skip
    STREAM_FAILED = (
        "stream_failed", "error", "An unexpected error in a stream; it restarts automatically.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    STREAM_NOT_ACQUIRED = (
        "stream_not_acquired", "warning", "A stream cannot be opened yet; retrying.",
        "If it continues, check the database and the disk.",
    )  # fmt: skip
    STREAM_TAKEN_OVER = (
        "stream_taken_over", "warning", "Another process became the owner of a stream; this one stops it.",
        "None after a restart. Otherwise check that the clocks and the network are stable.",
    )  # fmt: skip
    STREAM_RECOVERY_FAILED = (
        "stream_recovery_failed", "error", "A stream could not be read from its log at the start.",
        "Run `outcry doctor`.",
    )  # fmt: skip
    STREAM_RESTARTED_EMPTY = (
        "stream_restarted_empty", "error", "A stream could not be recovered; it restarts and requests history.",
        "Run `outcry doctor`. The old log is kept under another name.",
    )  # fmt: skip
    CLOCK_DRIFT = (
        "clock_drift", "warning", "Exchange times and this machine's clock differ by `drift_ms`.",
        "Synchronize the clock (NTP).",
    )  # fmt: skip
    STREAM_STATE_UNREADABLE = (
        "stream_state_unreadable", "warning", "The published state of a stream could not be read.",
        "Check that all processes run the same version.",
    )  # fmt: skip

    # Log, snapshots, sessions and alerts of live streams
    LOG_STALLED = (
        "log_stalled", "error", "The log of a stream cannot be written; trades wait in memory.",
        "Free disk space or repair the disk.",
    )  # fmt: skip
    LOG_RESUMED = "log_resumed", "info", "The log of a stream is written again; nothing is lost."
    LOG_WRITE_FAILED = (
        "log_write_failed", "error", "The log cannot be written to the disk.", "Free disk space or repair the disk."
    )  # fmt: skip
    LOG_UNREADABLE = (
        "log_unreadable", "warning", "A log cannot be read yet; retrying.", "Check the disk or the NATS servers."
    )  # fmt: skip
    LOG_DAMAGED = (
        "log_damaged", "error", "The log of a stream is damaged; the readable part is recovered.",
        "Check the disk. Run `outcry doctor`.",
    )  # fmt: skip
    LOG_SALVAGED = (
        "log_salvaged", "warning", "Part of a damaged log was recovered; `lost` says what is missing.",
        "Import a recording of the missing time.",
    )  # fmt: skip
    LOG_TAIL_QUARANTINED = (
        "log_tail_quarantined", "warning", "The incomplete end of a log was renamed; `lost` says what is missing.",
        "None after a crash. The feed sends the trades again.",
    )  # fmt: skip
    LOG_OLDER_THAN_SNAPSHOT = (
        "log_older_than_snapshot", "error", "A replay's log is older than its snapshot; the stream restarts.",
        "None. The log was renamed.",
    )  # fmt: skip
    SNAPSHOT_DAMAGED = (
        "snapshot_damaged", "warning", "A snapshot is damaged; the log is read instead.", "Check the disk."
    )  # fmt: skip
    SNAPSHOT_FAILED = (
        "snapshot_failed", "error", "A snapshot could not be taken; the next start reads more of the log.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    SNAPSHOT_NOT_STORED = (
        "snapshot_not_stored", "warning", "A snapshot could not be stored; the next start reads more of the log.",
        "Check the database.",
    )  # fmt: skip
    SESSION_NOT_STORED_YET = (
        "session_not_stored_yet", "warning", "A completed session cannot be stored yet; retrying.",
        "Check the database and the disk.",
    )  # fmt: skip
    SESSION_REJECTED = (
        "session_rejected", "error", "A recording does not match its contract; it is discarded with its log.",
        "Read `problem`. Import a recording of the session.",
    )  # fmt: skip
    SESSION_STORE_FAILED = (
        "session_store_failed", "error", "A completed session cannot be stored; retried with the next snapshot.",
        "Read `problem`: check the disk and run `outcry doctor`.",
    )  # fmt: skip
    ALERTS_NOT_RECORDED = (
        "alerts_not_recorded", "error", "An unexpected error while recording alerts; retrying.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    ALERTS_PENDING_AT_STOP = (
        "alerts_pending_at_stop", "warning", "The process stopped before all alerts were recorded.",
        "None. The next owner of the streams records them.",
    )  # fmt: skip
    ALERTS_DELAYED = (
        "alerts_delayed", "warning", "New alerts are not shown yet, because the database is busy.",
        "Check the database.",
    )  # fmt: skip
    STORE_BUSY = (
        "store_busy", "warning", "The database is busy; alerts and positions wait in memory.", "Check the database."
    )  # fmt: skip

    HOLIDAYS_ENDING = (
        "holidays_ending", "warning", "The holidays of the products in `calendar` are known until `last` only, less "
        "than a year from now. Later weekdays count as ordinary days.",
        "Update Outcry, or add rows to `instruments/holidays.csv` in the data folder.",
    )  # fmt: skip

    # Users' connections and pushed feeds
    CONNECTIONS_UNREADABLE = (
        "connections_unreadable", "warning", "The list of broker connections cannot be read; retrying.",
        "Check the database.",
    )  # fmt: skip
    CONNECTIONS_FAILED = (
        "connections_failed", "error", "An unexpected error while updating broker connections; retrying.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    CONNECTION_START_FAILED = (
        "connection_start_failed", "error", "A broker connection could not be started.", "Report `problem` as a bug."
    )  # fmt: skip
    CREDENTIALS_NOT_DECRYPTED = (
        "credentials_not_decrypted", "error", "Stored broker credentials cannot be decrypted.",
        "Run `outcry vault status`.",
    )  # fmt: skip
    BROKER_CHECK_FAILED = (
        "broker_check_failed", "error", "An unexpected error while checking a broker connection.",
        "Report the traceback in `exception` as a bug.",
    )  # fmt: skip
    BROKER_CHECK_NOT_RECORDED = (
        "broker_check_not_recorded", "warning", "The result of a broker check is missing in the user's log.",
        "Check the database.",
    )  # fmt: skip

    # Delivery of alerts, and email
    DELIVERY_RESTARTED = (
        "delivery_restarted", "error", "An unexpected error in the dispatcher; it restarts automatically.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    SENDER_FAILED = (
        "sender_failed", "error", "An unexpected error in the sender of `target`; the message is retried.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    MESSAGE_FAILED = (
        "message_failed", "error", "An unexpected error while processing a message; it is retried.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    MESSAGES_WITHOUT_SENDER = (
        "messages_without_sender", "warning", "Messages wait for a channel that is not configured.",
        "Configure the channel, such as `smtp_url` for email.",
    )  # fmt: skip
    MESSAGES_RECLAIMED = (
        "messages_reclaimed", "info", "This process sends the messages of a delivery worker that stopped.", "None."
    )  # fmt: skip
    OUTBOX_UNREADABLE = (
        "outbox_unreadable", "warning", "Due messages cannot be read; retrying.", "Check the database."
    )  # fmt: skip
    OUTBOX_UNWRITABLE = (
        "outbox_unwritable", "warning", "Delivery results cannot be stored; retrying.", "Check the database."
    )  # fmt: skip
    DELIVERY_RESULTS_FAILED = (
        "delivery_results_failed", "error", "An unexpected error while storing delivery results; retrying one by one.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    DELIVERY_RESULT_LOST = (
        "delivery_result_lost", "error", "The result of a delivery could not be stored; the message is sent again.",
        "Report `problem` of the event before as a bug.",
    )  # fmt: skip
    DELIVERY_RESULTS_PENDING_AT_STOP = (
        "delivery_results_pending_at_stop", "warning",
        "The process stopped before storing its last delivery results; these messages are sent again.",
        "None. Receivers recognise the message ids.",
    )  # fmt: skip
    DELIVERY_LOG_NOT_CLEANED = (
        "delivery_log_not_cleaned", "warning", "Old entries of the delivery log could not be deleted; retrying.",
        "Check the database.",
    )  # fmt: skip
    DELIVERY_WORKERS_UNKNOWN = (
        "delivery_workers_unknown", "warning", "The other delivery workers cannot be listed; retrying.",
        "Check the NATS servers.",
    )  # fmt: skip
    WEBHOOK_TEST_FAILED = (
        "webhook_test_failed", "error", "An unexpected error while sending a test message.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    WEBHOOK_TEST_NOT_RECORDED = (
        "webhook_test_not_recorded", "warning", "The result of a test message is missing in the delivery log.",
        "Check the database.",
    )  # fmt: skip
    OWNER_NOTICE_FAILED = (
        "owner_notice_failed", "error", "The owner of a webhook could not be notified of its state.",
        "Read `problem`. Check the database and the mail server.",
    )  # fmt: skip
    OWNER_NOTICE_DROPPED = (
        "owner_notice_dropped", "warning", "A notice to the owner of a webhook was dropped; too many were waiting.",
        "Check the mail server.",
    )  # fmt: skip
    EMAIL_FAILED = (
        "email_failed", "warning", "An email of the kind in `kind` could not be sent.",
        "Check `smtp_url` and the mail server.",
    )  # fmt: skip

    # Accounts and sign-in
    ACCOUNT_TASK_FAILED = (
        "account_task_failed", "error", "A step after a change of an account, such as an email, failed.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    OPENID_SIGN_IN_FAILED = (
        "openid_sign_in_failed", "warning", "A sign-in with the OpenID provider failed, for the reason in `problem`.",
        "Check the `oidc_*` settings and the provider.",
    )  # fmt: skip
    OPENID_SUBJECT_CHANGED = (
        "openid_subject_changed", "warning",
        "The OpenID provider reports another person for the email address of `user_id`; the sign-in was refused.",
        "Ask the user. If the change is right, remove the account's OpenID link.",
    )  # fmt: skip
    PUSH_QUOTA_WARNING = (
        "push_quota_warning", "warning", "A user has used 80 % of a push quota.",
        "Raise `push_quota_mib` or `push_streams`."
    )  # fmt: skip
    PUSH_QUOTA_EXCEEDED = (
        "push_quota_exceeded", "warning", "A user has used up a push quota; pushes are rejected.",
        "Raise `push_quota_mib` or `push_streams`.",
    )  # fmt: skip

    # Cluster
    CLUSTER_PART_FAILED = (
        "cluster_part_failed", "error", "An unexpected error in a part of this process; it restarts automatically.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    CLUSTER_NOT_JOINED = (
        "cluster_not_joined", "warning", "This process has not joined the cluster yet; retrying.",
        "Read `problem`. Check that secret, database and NATS servers are the cluster's.",
    )  # fmt: skip
    LIMITS_CUT_OFF = (
        "limits_cut_off", "warning",
        "This process is cut off from the others; it allows only its share of each request limit.",
        "Check the NATS servers and the network.",
    )  # fmt: skip
    PUBLIC_URL_MISSING = (
        "public_url_missing", "warning", "Links in messages point to this process, because `public_url` is not set.",
        "Set `OUTCRY_PUBLIC_URL`.",
    )  # fmt: skip
    NATS_DISCONNECTED = (
        "nats_disconnected", "error", "No NATS server can be reached; retrying.",
        "Check the NATS servers and the network."
    )  # fmt: skip
    NATS_RECONNECTED = "nats_reconnected", "info", "The connection to NATS works again."
    NATS_SERVERS_FEW = (
        "nats_servers_few", "warning",
        "`OUTCRY_CLUSTER` names fewer servers than the NATS cluster should replicate to.",
        "Name all servers in `OUTCRY_CLUSTER`.",
    )  # fmt: skip
    NATS_STREAM_DIFFERS = (
        "nats_stream_differs", "warning", "A JetStream stream has another configuration than required.",
        "Read `differs`. Correct it with the `nats` tool.",
    )  # fmt: skip
    NATS_MESSAGE_DROPPED = (
        "nats_message_dropped", "warning", "A NATS message was dropped; this process is too slow.",
        "Give the process more CPU or start another of its role.",
    )  # fmt: skip
    NATS_MESSAGE_FAILED = (
        "nats_message_failed", "error", "An unexpected error while handling a NATS message.",
        "Report `problem` as a bug."
    )  # fmt: skip
    NATS_LOG_STALLED = (
        "nats_log_stalled", "error", "NATS does not accept log entries; trades wait in memory.",
        "Check the NATS servers and their disks.",
    )  # fmt: skip
    NATS_LOG_RESUMED = "nats_log_resumed", "info", "NATS accepts log entries again; nothing is lost."
    NATS_LOG_FAILED = (
        "nats_log_failed", "error", "An unexpected error while writing a log to NATS.", "Report `problem` as a bug."
    )  # fmt: skip
    CALL_FAILED = (
        "call_failed", "error", "An unexpected error while answering a call of another process.",
        "Report `problem` as a bug.",
    )  # fmt: skip
    CALL_REPLY_TOO_LARGE = (
        "call_reply_too_large", "error", "A reply to another process exceeds the maximum NATS message size.",
        "Raise `max_payload` of the NATS servers.",
    )  # fmt: skip
    PARTITIONS_NOT_ASSIGNED = (
        "partitions_not_assigned", "warning", "Partitions cannot be assigned yet; retrying.", "Check the NATS servers."
    )  # fmt: skip
    PARTITIONS_SERVED = (
        "partitions_served",
        "info",
        "This process now runs `partitions` partitions (shares of the live streams).",
    )
    PARTITION_NOT_ACQUIRED = (
        "partition_not_acquired", "warning", "A partition could not be started on this process; retrying.",
        "Read `problem`. Check NATS and the database.",
    )  # fmt: skip
    PARTITION_NOT_RELEASED = (
        "partition_not_released", "warning", "A partition could not be released cleanly; its next owner waits longer.",
        "Read `problem`.",
    )  # fmt: skip

    # Agent, and the feeds role of a cluster
    PUSH_ACCEPTED = "push_accepted", "info", "The service accepts pushed trades."
    PUSH_REJECTED = (
        "push_rejected", "warning",
        "The service does not accept pushed trades, for the reason in `code`; they are spooled.",
        "Look up `code` in [the agent](../guides/agent.md).",
    )  # fmt: skip
    SPOOL_UNREADABLE = (
        "spool_unreadable", "error", "The spool of a stream cannot be read; it starts empty.", "Check the disk."
    )  # fmt: skip
    SPOOL_NOT_REMOVED = (
        "spool_not_removed", "warning", "The spool of an ended stream could not be deleted.", "Delete it by hand."
    )  # fmt: skip
    SPOOL_FAILED = (
        "spool_failed", "error", "An unexpected error in the spool; it restarts automatically.",
        "Report `problem` as a bug."
    )  # fmt: skip
    SPOOL_UNWRITABLE = (
        "spool_unwritable", "error", "The spool cannot be written; trades wait in memory.",
        "Free disk space or repair the disk.",
    )  # fmt: skip
    SPOOL_WRITABLE = "spool_writable", "info", "The spool can be written again."
    SPOOL_TRIMMED = (
        "spool_trimmed", "warning", "The spool is full; its oldest trades were deleted and are reported as a gap.",
        "Raise `spool_limit`, or check the connection to the service.",
    )  # fmt: skip


class Report(Protocol):
    """A callable that logs an event. Fields are snake_case, with the unit in the name, and never contain secrets."""

    def __call__(self, event: LogEvent, **fields: Any) -> object:
        """Log an event with its fields."""
        ...


class EventLog(Protocol):
    """Interface of a log of events with three levels."""

    def info(self, event: LogEvent, **values: Any) -> None:
        """Write an event that needs no action."""
        ...

    def warning(self, event: LogEvent, **values: Any) -> None:
        """Write an event that may need action."""
        ...

    def error(self, event: LogEvent, **values: Any) -> None:
        """Write an event that needs action."""
        ...


def discard(event: LogEvent, **fields: Any) -> None:
    """Discard an event. Pass this function as `report` where there is no log."""


def report_to_writer(writer: EventLog) -> Report:
    """Return a function that logs each event at its level."""

    def report(event: LogEvent, **fields: Any) -> object:
        return {"info": writer.info, "warning": writer.warning, "error": writer.error}[event.level](
            event, **fields
        )

    return report

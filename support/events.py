"""Log events as lines that a test can compare."""

from outcry.base.log_events import LogEvent, Tell


def tell_into(lines: list[str]) -> Tell:
    """Return a `Tell` that appends each event to a list, as `email_failed kind=alerts problem=…`."""

    def tell(event: LogEvent, **fields: object) -> None:
        lines.append(" ".join([event.value, *(f"{name}={value}" for name, value in fields.items())]))

    return tell

"""Log events as lines that a test can compare."""

from outcry.base.log_events import LogEvent, Report


def tell_into(lines: list[str]) -> Report:
    """Return a `Report` that appends each event to a list, as `email_failed kind=alerts problem=…`."""

    def report(event: LogEvent, **fields: object) -> None:
        lines.append(" ".join([event.value, *(f"{name}={value}" for name, value in fields.items())]))

    return report

"""Import of one file or live recording: read its rows, build its sessions, and store both."""

from outcry.recordings.file_model import Reading
from outcry.recordings.import_report import FileReport, Progress
from outcry.recordings.mixed_readings import refuse_mixed_readings
from outcry.recordings.session_selection import SessionBuilder
from outcry.recordings.session_splitting import ImportContext, SessionSplitter
from outcry.recordings.source_file import SourceFile
from outcry.recordings.staging import StagingArea
from outcry.sessions.store_model import NO_DETAILS, ImportRow
from outcry.trades.coverage import GRACE_NS


def import_file(
    context: ImportContext, owner: int, reading: Reading, now_ns: int, file: SourceFile | None = None,
    progress: Progress = lambda _done, _of: None,
) -> FileReport:  # fmt: skip
    """Read all rows, store the recordings and sessions, and return a report. After an error nothing is stored.

    `file` is None for a live recording. Then no digest is stored, because the recording may be imported again when it
    has grown. Rows may then also be later than `now_ns`, because a replay has a clock of its own.
    """
    latest_ns = now_ns + GRACE_NS if file else 2**63 - 1
    report = FileReport(reading.path, "no trades", reading.format, reading.source)
    with StagingArea(context.tape, owner, reading.source) as staging:
        splitter = SessionSplitter(context, staging, reading.path, latest_ns)
        for batch in reading.batches():
            splitter.add(batch)
            progress(reading.bytes_read, reading.bytes_total)
        digest, name = (file.digest(), file.name) if file else ("", "")
        for root, early in splitter.early.items():
            reason = (
                f"rows before {context.calendar.hours.begin(root)}, when the session tables of {root} begin"
            )
            reading.counts.skip(reason, early)
        report.rows, report.outside, report.skipped = (
            reading.counts.rows,
            splitter.outside,
            dict(reading.counts.skipped),
        )
        report.invalid = list(reading.counts.invalid)
        if not splitter.folds and not splitter.outside and not splitter.early and reading.counts.skipped:
            return report
        splitter.check_labels(reading.counts.skipped)
        details = file.details(reading) if file else NO_DETAILS
        row = ImportRow(owner, digest, name, now_ns, details)
        refuse_mixed_readings(context.store, reading.path, row, staging.days)
        spans = {root: reading.covered or (span,) for root, span in splitter.span.items()}
        days = staging.finish(
            context.store, digest, spans, from_feed=bool(reading.covered), replace=reading.replaces
        )
        builder = SessionBuilder(context, owner, reading.source, now_ns)
        rows, report.sessions = builder.select(reading.path, splitter.folds.values(), days)
        changed, report.damaged = staging.commit(context.store, digest, name, details, rows, now_ns)
        products = (context.universe.products[contract.root] for contract, *_ in splitter.folds)
        report.parents = {product.root: product.parent for product in products if product.parent}
        report.state = "imported" if changed else "unchanged"
    return report

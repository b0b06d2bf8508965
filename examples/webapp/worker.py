"""A worker of the application: it imports the files that server.py stored.
Start it with: CONSIGN_KEY=$(cat consign-data/admin.key) python3 worker.py"""
import csv, os, pathlib, sys, time, uuid

# In an application of your own, copy consign_worker.py beside this file, and leave this line out.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from consign_worker import Fail, handler, run_worker

UPLOADS = pathlib.Path(os.environ.get("UPLOADS", "uploads"))


@handler("csv-import")
def import_payments(job):
    """Adds up the payments. Each row takes a moment, as if it were booked somewhere."""
    file = UPLOADS / str(uuid.UUID(job.payload["upload"]))
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    cents = 0
    for number, row in enumerate(rows, 1):
        cents += amount_of(row, number + 1)
        job.report(100 * number / len(rows), f"row {number} of {len(rows)}")
        time.sleep(0.05)
        if job.cancelled:
            raise Fail("STOPPED", "as it was asked to", outcome="cancelled")
    return {"rows": len(rows), "total": f"{cents / 100:.2f}"}


def amount_of(row, line):
    try:
        return round(float(row["amount"]) * 100)
    except (KeyError, TypeError, ValueError):
        # The same file has the same mistake at every attempt, so a retry cannot help.
        raise Fail("BAD_ROW", f"line {line}: {row.get('amount')!r} is no amount", retryable=False)


run_worker()

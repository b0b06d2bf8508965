"""A worker with one handler: put your own in its place. It needs consign_worker.py beside it.
Start it with: CONSIGN_KEY=$(cat consign-data/admin.key) python3 worker.py"""
import time
from consign_worker import Fail, handler, run_worker


@handler("email")
def send(job):
    """Simulated: it takes "seconds", fails in the first "failures" attempts, and returns "result"."""
    if not isinstance(job.payload, dict):
        raise Fail("BAD_PAYLOAD", "no object", outcome="poisoned")
    if "@" not in job.payload.get("to", "@"):
        raise Fail("NO_ADDRESS", "no @ in it", retryable=False)
    for percent in range(0, 100, 5):
        job.report(percent, "connecting" if percent < 40 else "sending")
        time.sleep(job.payload.get("seconds", 5) / 20)
        if job.cancelled:
            raise Fail("STOPPED", "as it was asked to", outcome="cancelled")
    if job.attempt <= job.payload.get("failures", 0):
        raise Fail("SMTP_DOWN", "no answer")
    return job.payload.get("result", {"sent": True})


run_worker()

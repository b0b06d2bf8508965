"""A job from its submit to its end, with nothing but the generated client: `follow.py URL KEY`."""

import sys

from consign_client import AuthenticatedClient, Client
from consign_client.api.system import get_health
from consign_client.api.jobs import enqueue_job, get_job, get_job_history, get_job_status
from consign_client.api.work import claim_jobs, send_heartbeat, settle_jobs
from consign_client.models import (
    ClaimRequest,
    HeartbeatItem,
    HeartbeatRequest,
    JobState,
    Outcome,
    Problem,
    ProgressRequest,
    SettleItem,
    SettleRequest,
    SubmitRequest,
)

url, key = sys.argv[1:]
assert get_health.sync(client=Client(base_url=url)).status == "ok"
client = AuthenticatedClient(base_url=url, token=key)

new = SubmitRequest(job_type="generated", subject_id="order/7", payload={"to": "ada@example.org"})
submitted = enqueue_job.sync(client=client, body=new, idempotency_key="order-7")
assert submitted.status is JobState.QUEUED and not submitted.duplicate, submitted
again = enqueue_job.sync(client=client, body=new, idempotency_key="order-7")
assert again.job_id == submitted.job_id and again.duplicate, again

wish = ClaimRequest(worker_id="w", claim_id="1", job_types=["generated"], wait_seconds=10)
[job] = claim_jobs.sync(client=client, body=wish).jobs
assert job.job_id == submitted.job_id and job.payload == {"to": "ada@example.org"}, job

progress = ProgressRequest(percent=50, note="halfway there")
held = HeartbeatItem(job_id=job.job_id, token=job.lease.token, progress=progress)
[result] = send_heartbeat.sync(client=client, body=HeartbeatRequest(worker_id="w", leases=[held])).leases
assert result.state == "extended", result
running = get_job_status.sync(submitted.job_id, client=client)
assert running.status is JobState.RUNNING and running.progress.percent == 50, running

done = SettleItem(job_id=job.job_id, token=job.lease.token, outcome=Outcome.COMPLETED, result={"sent": True})
[settled] = settle_jobs.sync(client=client, body=SettleRequest(items=[done])).items
assert settled.status is JobState.COMPLETED, settled
ended = get_job_status.sync(submitted.job_id, client=client, wait=10)
assert ended.status is JobState.COMPLETED and ended.result == {"sent": True}, ended
states = [row.to for row in get_job_history.sync(submitted.job_id, client=client).items]
assert states == [JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED], states

refused = get_job.sync("01a1e17f-dec5-7ff8-81e3-73a73ebb528a", client=client)
assert isinstance(refused, Problem) and refused.error_code == "JOB_NOT_FOUND", refused
print("followed to", ended.status)

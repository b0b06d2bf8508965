// A worker for Consign in TypeScript, for Node 18 and without dependencies: copy it, and put your own
// handlers in the place of `send`.
//
//     CONSIGN_KEY=$(cat consign-data/admin.key) node out/worker.js

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.CONSIGN_URL ?? "http://127.0.0.1:8470";
const key = process.env.CONSIGN_KEY || exitWith("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
const slots = Number(process.env.CONSIGN_SLOTS ?? 4); // how many jobs at once
const graceMs = Number(process.env.CONSIGN_GRACE ?? 20) * 1000; // for running jobs when the worker is asked to end
const workerId = `${hostname()}-${process.pid}`;
const leasedJobs = new Set<Job>();
const heartbeatsEnd = new AbortController(); // aborted when no more heartbeats may be sent
let stopping = false;

type Ending = { outcome: "completed" | "failed" | "poisoned" | "cancelled"; [more: string]: unknown };
type Claimed = {
  jobId: string; jobType: string; payload: unknown; attempt: number; correlationId: string;
  lease: { token: string };
};

/** Ends an attempt. The job is tried again, as after any error, unless `retryable` is false or the outcome differs. */
class Fail extends Error {
  readonly ending: Ending;
  constructor(errorCode: string, errorMessage: string, more: Partial<Ending> = {}) {
    super(errorMessage);
    this.ending = { outcome: "failed", errorCode, errorMessage, ...more };
  }
}

/** A handler's job. Its signal is aborted when the handler should stop: pass it on to every call that waits. */
class Job {
  readonly stop = new AbortController();
  progress: { percent: number; note: string } | null = null;
  constructor(readonly claimed: Claimed) {}

  get signal() { return this.stop.signal; }
  get name() { return `${this.claimed.jobType} ${this.claimed.jobId}`; }
  get lease() { return { jobId: this.claimed.jobId, token: this.claimed.lease.token }; }
  report(percent: number, note: string) { this.progress = { percent: Math.floor(percent), note }; }
}

/** One function per job type. A function that blocks the thread holds up the heartbeats of all jobs. */
const handlers: Record<string, (job: Job) => Promise<unknown>> = { email: send };

/** Simulated: it takes `seconds`, and fails in the first `failures` attempts. */
async function send(job: Job) {
  const mail = job.claimed.payload as { to?: string; seconds?: number; failures?: number };
  if (mail?.constructor !== Object) throw new Fail("BAD_PAYLOAD", "no object", { outcome: "poisoned" });
  if (mail.to?.includes("@") === false) throw new Fail("NO_ADDRESS", "no @ in it", { retryable: false });
  for (let percent = 0; percent < 100; percent += 5) {
    job.report(percent, percent < 40 ? "connecting" : "sending");
    await sleep(((mail.seconds ?? 5) * 1000) / 20, undefined, { signal: job.signal });
  }
  if (job.claimed.attempt <= (mail.failures ?? 0)) throw new Fail("SMTP_DOWN", "no answer");
  return { sent: true };
}

/** Retries until there is an answer: a repeated request of a worker counts once. */
async function post<Answer>(path: string, body: object, tries = Infinity): Promise<Answer> {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  for (let waitMs = 200; ; waitMs = Math.min(waitMs * 2, 5000)) {
    try {
      const signal = AbortSignal.timeout(path === "claim" ? 40_000 : 10_000);
      const init = { method: "POST", headers, body: JSON.stringify(body), signal };
      const answer = await fetch(`${url}/api/work/${path}`, init);
      if (answer.ok) return (await answer.json()) as Answer;
      const problem = await answer.text();
      log(`${path}: ${problem}`);
      if ([400, 401, 403].includes(answer.status)) process.exit(1); // a retry would not help
    } catch (failure) {
      log(`${path}: ${failure instanceof Error ? (failure.cause ?? failure.message) : failure}`);
    }
    if (--tries === 0) throw new Error(`${path}: no answer`);
    await sleep(waitMs);
  }
}

/** One slot: claims a job, runs it, settles it. A repeated claimId brings the same job. */
async function work() {
  while (!stopping) {
    const request = { workerId, jobTypes: Object.keys(handlers), waitSeconds: 5, leaseSeconds: 30 };
    const claim = await post<{ jobs: Claimed[] }>("claim", { ...request, claimId: randomUUID() });
    for (const claimed of claim.jobs) {
      const job = new Job(claimed);
      leasedJobs.add(job);
      if (stopping) return; // too late: it is given back with the others
      log(`${job.name}: attempt ${claimed.attempt} (${claimed.correlationId})`);
      const items = [{ ...job.lease, ...(await run(job)) }];
      const answer = await post<{ items: { status?: string; problem?: object }[] }>("settle", { items });
      log(`${job.name}: ${answer.items[0]?.status ?? JSON.stringify(answer.items[0]?.problem)}`);
      leasedJobs.delete(job);
    }
  }
}

async function run(job: Job): Promise<Ending> {
  try {
    const result = (await handlers[job.claimed.jobType]?.(job)) ?? null;
    const large = JSON.stringify(result).length > 4096;
    if (large) throw new Fail("RESULT_TOO_LARGE", "over 4 KiB", { retryable: false });
    return { outcome: "completed", result };
  } catch (error) {
    if (job.signal.aborted) return { outcome: "cancelled" };
    if (error instanceof Fail) return error.ending;
    return { outcome: "failed", errorMessage: String(error).slice(0, 500) };
  }
}

/** Extends all leases every second and reports progress; the answer says which jobs should stop. */
async function sendHeartbeats() {
  for (;;) {
    await sleep(1000, undefined, { signal: heartbeatsEnd.signal }).catch(() => null);
    if (heartbeatsEnd.signal.aborted) return;
    const jobs = [...leasedJobs];
    if (jobs.length === 0) continue;
    const leases = jobs.map((job) => ({ ...job.lease, progress: job.progress }));
    const sending = post<{ leases: { state: string }[] }>("heartbeat", { workerId, leases }, 1);
    const answer = await sending.catch(() => null); // not retried: the next heartbeat repeats it
    answer?.leases.forEach((lease, at) => lease.state === "extended" || jobs[at]?.stop.abort());
  }
}

/** Lets handlers end, and gives back the other jobs with a delay of a second, when no slot here claims any more. */
async function end() {
  if (stopping) process.exit(1); // the second signal
  stopping = true;
  await Promise.race([Promise.all(slotsDone), sleep(graceMs)]);
  heartbeatsEnd.abort();
  await heartbeats; // a heartbeat beside `leave` or after it would register the worker again
  const items = [...leasedJobs].map((job) => ({ ...job.lease, delaySeconds: 1 }));
  leasedJobs.clear();
  if (items.length > 0) await post("release", { items });
  await Promise.race([post("leave", { workerId }), sleep(2000)]); // so that it is not listed as missing first
  process.exit(0);
}

function log(text: string) { console.error(new Date().toISOString(), text); }
function exitWith(text: string): never { console.error(text); process.exit(1); }

process.on("SIGTERM", end).on("SIGINT", end);
log(`${workerId} works on ${Object.keys(handlers).join(", ")}`);
const heartbeats = sendHeartbeats();
const slotsDone = Array.from({ length: slots }, work);

// Runs handlers for the jobs of a Consign server, in TypeScript, for Node 18 and without dependencies.
// Copy it as it is; worker.ts shows how to use it.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.CONSIGN_URL ?? "http://127.0.0.1:8470";
const key = process.env.CONSIGN_KEY || exitWith("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
const slots = Number(process.env.CONSIGN_SLOTS ?? 4); // how many jobs at once
const graceMs = Number(process.env.CONSIGN_GRACE ?? 20) * 1000; // for running jobs when the worker is asked to end
const patienceMs = Number(process.env.CONSIGN_PATIENCE ?? 60) * 1000; // of 401 or 403: a node may learn of a key late
const workerId = `${hostname()}-${process.pid}`;
const leasedJobs = new Set<Job>();
const heartbeatsEnd = new AbortController(); // aborted when no more heartbeats may be sent
let stopping = false;
let refusedSince = 0; // when the first of the last 401s or 403s came; 0: the last answer was another one

type Progress = { percent: number; note: string };
type Problem = { status: number; errorCode: string; detail: string };
type Refused = { problem: Problem };
type Outcome = "completed" | "failed" | "poisoned" | "cancelled";
type Ending = { outcome: Outcome; retryable?: boolean; [more: string]: unknown };
type Claimed = {
  jobId: string; jobType: string; payload: unknown; attempt: number; correlationId: string;
  lease: { token: string; leaseSeconds: number };
};

/** Ends an attempt. The job is tried again, as after any error, unless `retryable` is false or the outcome differs. */
export class Fail extends Error {
  readonly ending: Ending;
  constructor(errorCode: string, errorMessage: string, more: Partial<Ending> = {}) {
    super(errorMessage);
    this.ending = { outcome: "failed", errorCode, errorMessage, ...more };
  }
}

/** A handler's job. Its signal is aborted when the handler should stop: pass it on to every call that waits. */
export class Job {
  readonly stop = new AbortController();
  progress: Progress | null = null;
  sentProgress: Progress | null = null;
  sentAt = Date.now();
  constructor(readonly claimed: Claimed) {}

  get signal() { return this.stop.signal; }
  get name() { return `${this.claimed.jobType} ${this.claimed.jobId}`; }
  get lease() { return { jobId: this.claimed.jobId, token: this.claimed.lease.token }; }
  report(percent: number, note: string) { this.progress = { percent: Math.floor(percent), note }; }

  /** A step that is done is not done again: the next attempt gets the same result. */
  async step<Result>(name: string, action: () => Promise<Result>): Promise<Result> {
    let answer = await this.markStep({ name, action: "begin" });
    if (answer.state !== "done") answer = await this.markStep({ name, action: "finish", result: await action() });
    return answer.result as Result;
  }

  private async markStep(more: object) {
    const answer = await post<{ state: string; result: unknown }>("steps", { ...this.lease, ...more });
    if ("problem" in answer) throw new Fail(answer.problem.errorCode, answer.problem.detail);
    return answer;
  }

  /** After a third of the lease; after a second if there is new progress. */
  get needsHeartbeat() {
    const third = (this.claimed.lease.leaseSeconds * 1000) / 3;
    return Date.now() - this.sentAt > (this.progress === this.sentProgress ? third : Math.min(1000, third));
  }
}

/** One function per job type. A function that blocks the thread holds up the heartbeats of all jobs. */
export type Handlers = Record<string, (job: Job) => Promise<unknown>>;

/** Retries until there is an answer: a repeated request of a worker counts once. */
async function post<Answer>(path: string, body: object, tries = Infinity): Promise<Answer | Refused> {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  for (let waitMs = 1000; ; waitMs = Math.min(waitMs * 2, 5000)) {
    try {
      const signal = AbortSignal.timeout(path === "claim" ? 40_000 : 10_000);
      const init = { method: "POST", headers, body: JSON.stringify(body), signal };
      const answer = await fetch(`${url}/api/work/${path}`, init);
      refusedSince = [401, 403].includes(answer.status) ? refusedSince || Date.now() : 0;
      if (answer.ok) return (await answer.json()) as Answer;
      const problem = await answer.text();
      log(`${path}: ${answer.status} ${problem}`);
      const isTemporary = answer.status >= 500 || [401, 403, 408, 429].includes(answer.status);
      if (!isTemporary) return { problem: JSON.parse(problem) };
      if (refusedSince && Date.now() - refusedSince > patienceMs) process.exit(1);
    } catch (failure) {
      log(`${path}: ${failure instanceof Error ? (failure.cause ?? failure.message) : failure}`);
    }
    if (--tries <= 0) throw new Error(`${path}: no answer`);
    await sleep(waitMs);
  }
}

/** One slot: claims a job, runs it, settles it. A repeated claimId brings the same job. */
async function work(handlers: Handlers) {
  while (!stopping) {
    const request = { workerId, claimId: randomUUID(), jobTypes: Object.keys(handlers), waitSeconds: 5 };
    const claim = await post<{ jobs: Claimed[] }>("claim", request);
    if ("problem" in claim) process.exit(1);
    for (const claimed of claim.jobs) {
      const job = new Job(claimed);
      leasedJobs.add(job);
      if (stopping) return; // too late: it is given back with the others
      log(`${job.name}: attempt ${claimed.attempt} (${claimed.correlationId})`);
      await report(job, await run(job, handlers));
      leasedJobs.delete(job);
    }
  }
}

async function run(job: Job, handlers: Handlers): Promise<Ending> {
  try {
    const result = (await handlers[job.claimed.jobType]?.(job)) ?? null;
    JSON.stringify(result); // what is no JSON fails here, and not in the report
    return { outcome: "completed", result };
  } catch (error) {
    if (error instanceof Fail) return error.ending;
    if (job.signal.aborted) return { outcome: "cancelled" };
    return { outcome: "failed", errorMessage: String(error).slice(0, 500) };
  }
}

async function report(job: Job, ending: Ending) {
  const problem = await settle(job, ending);
  if (!problem || ![400, 413].includes(problem.status)) return;
  // Such as a result that is too large. Without a report the job would end as lost.
  const retryable = ending.retryable ?? ending.outcome === "failed";
  await settle(job, new Fail(problem.errorCode, problem.detail, { retryable }).ending);
}

async function settle(job: Job, ending: Ending): Promise<Problem | undefined> {
  const items = [{ ...job.lease, ...ending }];
  const answer = await post<{ items: { status?: string; problem?: Problem }[] }>("settle", { items });
  const item = "problem" in answer ? answer : answer.items[0];
  log(`${job.name}: ${item && "status" in item ? item.status : JSON.stringify(item?.problem)}`);
  return item?.problem;
}

/** Extends leases and reports progress; the answer says which jobs should stop. */
async function sendHeartbeats() {
  while (!heartbeatsEnd.signal.aborted) {
    await sleep(300, undefined, { signal: heartbeatsEnd.signal }).catch(() => null);
    const jobs = [...leasedJobs].filter((job) => job.needsHeartbeat);
    if (heartbeatsEnd.signal.aborted || jobs.length === 0) continue;
    const [sentAt, sent] = [Date.now(), jobs.map((job) => job.progress)];
    const leases = jobs.map((job, at) => ({ ...job.lease, progress: sent[at] }));
    const sending = post<{ leases: { state: string }[] }>("heartbeat", { workerId, leases }, 1);
    const answer = await sending.catch(() => sleep(1000)); // not retried: the next heartbeat repeats it
    if (!answer || "problem" in answer) continue;
    for (const [at, job] of jobs.entries()) {
      Object.assign(job, { sentAt, sentProgress: sent[at] });
      if (answer.leases[at]?.state !== "extended") job.stop.abort();
    }
  }
}

/** Runs handlers until SIGTERM or Ctrl-C: the first signal ends it in order, the second at once. */
export function runWorker(handlers: Handlers) {
  log(`${workerId} works on ${Object.keys(handlers).join(", ")}`);
  const heartbeats = sendHeartbeats();
  const slotsDone = Array.from({ length: slots }, () => work(handlers));
  const end = () => (stopping ? process.exit(1) : void endInOrder(slotsDone, heartbeats));
  process.on("SIGTERM", end).on("SIGINT", end);
}

/** Lets handlers end, and gives back the other jobs with a delay of a second, when no slot here claims any more. */
async function endInOrder(slotsDone: Promise<void>[], heartbeats: Promise<void>) {
  stopping = true;
  await Promise.race([Promise.all(slotsDone), sleep(graceMs)]);
  heartbeatsEnd.abort();
  await heartbeats; // a heartbeat beside `leave` or after it would register the worker again
  const items = [...leasedJobs].map((job) => ({ ...job.lease, delaySeconds: 1 }));
  leasedJobs.clear();
  if (items.length > 0) await post("release", { items }, 3).catch(() => null);
  await post("leave", { workerId }, 1).catch(() => null); // so that it is not listed as lost
  process.exit(0);
}

function log(text: string) { console.error(new Date().toISOString(), text); }
function exitWith(text: string): never { console.error(text); process.exit(1); }

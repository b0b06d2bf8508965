// Submits a job to Consign and follows it to its end, in TypeScript, for Node 18 and without dependencies.
//
//     CONSIGN_KEY=$(cat consign-data/admin.key) node out/client.js email '{"to": "ada@example.org"}'
//
// It ends with 0 when the job is Completed, 3 Failed, 4 Poisoned, 5 Cancelled; 1 when it was not accepted.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const url = process.env.CONSIGN_URL ?? "http://127.0.0.1:8470";
const key = process.env.CONSIGN_KEY || leave("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
const endings: Record<string, number> = { Completed: 0, Failed: 3, Poisoned: 4, Cancelled: 5 };
const patienceMs = 120_000; // without an answer until the client gives up

type Taken = { jobId: string; statusUrl: string; duplicate: boolean };
type Answer<Body> = { etag: string; news: Body | null };
type Status = {
  status: string; attempt: number; maxAttempts: number; errorCode: string | null; errorMessage: string | null;
  progress: { percent: number; note: string | null } | null; result: unknown;
};

/**
 * Retries until there is an answer. A job is submitted with an Idempotency-Key, so a retry is safe even when
 * the first answer got lost.
 */
async function ask<Body>(path: string, more: Record<string, string>, body?: object): Promise<Answer<Body>> {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...more };
  const method = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const giveUp = Date.now() + patienceMs;
  for (let waitMs = 250; ; waitMs = Math.min(waitMs * 2, 10_000)) {
    let [reason, afterMs] = ["", 0];
    try {
      const signal = AbortSignal.timeout(60_000);
      const answer = await fetch(new URL(path, url), { ...method, headers, signal });
      const etag = answer.headers.get("ETag") ?? "";
      if (answer.status === 304) return { etag, news: null };
      if (answer.ok) return { etag, news: (await answer.json()) as Body };
      reason = await answer.text();
      const passing = answer.status >= 500 || [408, 429].includes(answer.status);
      if (!passing) leave(`refused: ${reason}`); // nothing was stored
      afterMs = Number(answer.headers.get("Retry-After") ?? 0) * 1000 || 0;
    } catch (lost) {
      reason = String(lost instanceof Error ? (lost.cause ?? lost.message) : lost);
    }
    if (Date.now() > giveUp) leave(`gave up: ${reason}; with --key ${idempotencyKey} you can safely start again`);
    console.error(`${reason}; asking again`);
    const chanceMs = waitMs * (0.5 + Math.random() / 2); // jitter, so that clients do not return at the same time
    await sleep(Math.max(afterMs, chanceMs));
  }
}

/** The address of the status of a job that is on disk now. */
async function handOver(job: object): Promise<string> {
  const { news: taken } = await ask<Taken>("/api/jobs", { "Idempotency-Key": idempotencyKey }, job);
  if (!taken) throw new Error("a job that is taken has an id");
  console.log(`submitted as ${taken.jobId}${taken.duplicate ? ", which was known already" : ""}`);
  return taken.statusUrl;
}

/** Each new status, until the job has ended: the server answers when the status changes. */
async function* follow(address: string): AsyncGenerator<Status> {
  let answer = await ask<Status>(address, {});
  for (;;) {
    if (answer.news) yield answer.news;
    if (answer.news && answer.news.status in endings) return;
    answer = await ask(`${address}?wait=30`, { "If-None-Match": answer.etag });
  }
}

/** One status in one line. */
function line({ status, attempt, maxAttempts, progress, errorCode, errorMessage }: Status): string {
  const parts = [`${status}, attempt ${attempt} of ${maxAttempts}`];
  if (progress && status === "Running") parts.push(`${progress.percent} % ${progress.note ?? ""}`);
  if (errorCode) parts.push(`${errorCode}: ${errorMessage ?? ""}`);
  return parts.join("  ");
}

function leave(text: string): never {
  console.error(text);
  process.exit(1);
}

function json(text: string): unknown {
  try { return JSON.parse(text); } catch { return leave(`this is no JSON: ${text}`); }
}

const options = { subject: { type: "string" }, key: { type: "string" } } as const;
const { values, positionals: [jobType, payload] } = parseArgs({ options, allowPositionals: true });
const idempotencyKey = values.key ?? randomUUID();
if (!jobType || !payload) leave("usage: client.js TYPE PAYLOAD [--subject SUBJECT] [--key IDEMPOTENCY_KEY]");
const job = { jobType, payload: json(payload), subjectId: values.subject };
for await (const status of follow(await handOver(job))) {
  console.log(line(status));
  if (status.status in endings) console.log(JSON.stringify(status.result));
  process.exitCode = endings[status.status];
}

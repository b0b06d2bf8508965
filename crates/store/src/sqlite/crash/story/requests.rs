//! The random requests of a story's callers.

use super::{StoryRunner, facts};
use crate::{
    Clock, RandomSource, Reply, Request, conformance::audit::recorded, sqlite::crash::facts::Fact,
};
use engine::{
    ClaimId, ClaimRequest, Command, EndingDraft, JobDraft, JobId, JobType, LeaseToken, NewJob,
    Outcome, PAYLOAD_BYTES_MAX, PolicyDraft, ProgressReport, ReleaseReason, Scope, StepName,
    SubmitContext, Tenant, WorkerId, check_step_result,
};
use std::time::Duration;

impl StoryRunner {
    pub(super) fn request(&mut self) -> Request {
        match self.below(26) {
            0..=6 => Request::Submit(vec![self.new_job()]),
            7 => Request::Submit((0..2 + self.below(5)).map(|_| self.new_job()).collect()),
            8 => self.same_key_again(),
            9..=13 => self.claim(),
            14..=18 => self.settle(),
            19 => self.settle_again(),
            20 => self.with_lease(|runner, token| {
                let progress = runner.below(2) == 0;
                let report = || ProgressReport::check(40, Some("on its way")).expect("lawful");
                Command::Heartbeat { token, progress: progress.then(report) }
            }),
            21 => self.with_lease(|runner, token| {
                let delay = Duration::from_secs(runner.below(30) as u64);
                Command::Release { token, reason: ReleaseReason::Released, delay }
            }),
            22 => self.step_of_a_job(),
            23 | 24 => self.operate(),
            _ => self.change_setting(),
        }
    }

    fn new_job(&mut self) -> NewJob {
        let number = self.choices.next();
        let pad = match self.below(12) {
            0 => 9_000 + self.below(9_000),
            1 | 2 => 1_000 + self.below(3_000),
            _ => self.below(300),
        };
        let pick = |share: u64, bits: u32| (number >> bits).is_multiple_of(share);
        let draft = JobDraft {
            job_type: self.job_type().as_str().to_owned(),
            payload: Some(format!(r#"{{"number":{number},"pad":"{}"}}"#, "p".repeat(pad))),
            subject_id: pick(2, 1).then(|| format!("order-{}", number % 50)),
            correlation_id: pick(2, 2).then(|| format!("trace-{}", number % 50)),
            idempotency_key: pick(3, 3).then(|| format!("key-{number}")),
            priority: pick(3, 8).then_some((number % 10) as i64),
            delay_seconds: pick(8, 12).then_some((number % 90) as i64),
            expires_at: pick(9, 16).then(|| self.clock.read().wall.unix_ms() + 100_000),
            max_attempts: pick(4, 20).then_some(1 + (number % 3) as i64),
            parent_id: self.ids.last().filter(|_| pick(6, 24)).map(ToString::to_string),
            ..JobDraft::default()
        };
        let owner = self.tenant();
        if draft.idempotency_key.is_some() {
            self.keyed.push((draft.clone(), owner.clone()));
        }
        self.check_draft(draft, owner)
    }

    fn check_draft(&mut self, draft: JobDraft, tenant: Tenant) -> NewJob {
        let id = JobId::new(self.clock.read().wall, self.random.entropy());
        let (entropy, payload_bytes_max) = (self.random.entropy(), PAYLOAD_BYTES_MAX);
        draft.check(SubmitContext { id, tenant, entropy, payload_bytes_max }).expect("lawful")
    }

    fn same_key_again(&mut self) -> Request {
        let Some((draft, owner)) = self.pick(|runner| &runner.keyed).cloned() else {
            return Request::Submit(vec![self.new_job()]);
        };
        let other = self.below(4) == 0;
        let payload = if other { Some("[]".to_owned()) } else { draft.payload.clone() };
        Request::Submit(vec![self.check_draft(JobDraft { payload, ..draft }, owner)])
    }

    fn claim(&mut self) -> Request {
        let claim_request = ClaimRequest {
            worker: WorkerId::parse(["w1", "w2"][self.below(2)]).expect("lawful"),
            host: None,
            claim: ClaimId::parse(&format!("c{}", self.choices.next())).expect("lawful"),
            job_types: TYPES.iter().map(|name| JobType::parse(name).expect("lawful")).collect(),
            max: 1 + self.below(4),
            lease: None,
        };
        Request::Claim { scope: Scope::All, claim_request }
    }

    fn with_lease(&mut self, make: impl FnOnce(&mut Self, LeaseToken) -> Command) -> Request {
        let Some((id, token)) = self.pick(|runner| &runner.leases).copied() else {
            return self.claim();
        };
        command_request(id, make(self, token))
    }

    fn settle(&mut self) -> Request {
        self.with_lease(|runner, token| {
            let (outcome, retryable) = match runner.below(9) {
                0..=4 => (Outcome::Completed, None),
                5 | 6 => (Outcome::Failed, Some(true)),
                7 => (Outcome::Failed, Some(false)),
                _ if runner.below(2) == 0 => (Outcome::Poisoned, None),
                _ => (Outcome::Cancelled, None),
            };
            let draft = EndingDraft {
                retryable,
                error_code: Some(format!("CODE_{}", runner.below(5))),
                error_message: Some("it did not work".into()),
                result: Some(format!("[{}]", runner.choices.next())),
                ..EndingDraft::new(outcome)
            };
            Command::Settle { token, ending: draft.check().expect("lawful") }
        })
    }

    fn settle_again(&mut self) -> Request {
        let Some((id, command)) = self.pick(|runner| &runner.settled).cloned() else {
            return self.settle();
        };
        command_request(id, command)
    }

    fn step_of_a_job(&mut self) -> Request {
        self.with_lease(|runner, token| {
            let name = StepName::parse(["fetch", "send"][runner.below(2)]).expect("lawful");
            if runner.below(2) == 0 {
                return Command::BeginStep { token, name };
            }
            let result =
                check_step_result(&format!("[{}]", runner.choices.next())).expect("lawful");
            Command::FinishStep { token, name, result }
        })
    }

    fn operate(&mut self) -> Request {
        let Some(id) = self.pick(|runner| &runner.ids).copied() else {
            return self.claim();
        };
        let reset_steps = self.below(2) == 0;
        let command = match self.below(6) {
            0 | 1 => Command::Cancel,
            2 | 3 => Command::Redrive { max_attempts: None, reset_steps, payload: None },
            4 => Command::Discard,
            _ => Command::Erase,
        };
        recorded(&id.to_string(), command_request(id, command))
    }

    fn change_setting(&mut self) -> Request {
        let (job_type, scope) = (self.job_type(), Scope::One(self.tenant()));
        match self.below(7) {
            0 => Request::Pause { scope, job_type, note: engine::PauseNote::default() },
            1..=3 => Request::Resume { scope: Scope::All, job_type },
            4 => Request::WorkerAlive { scope, worker: WorkerId::parse("w3").expect("lawful") },
            _ => {
                let max_attempts = Some(1 + self.below(4) as i64);
                let draft = PolicyDraft { max_attempts, ..PolicyDraft::default() };
                Request::set_policy(&job_type, &draft.check().expect("lawful"))
            }
        }
    }

    pub(super) fn record_reply(&mut self, request: &Request, reply: &Reply) {
        for fact in facts(request, reply) {
            match fact {
                Fact::Submitted(_, submitted) if !submitted.duplicate => {
                    self.ids.push(submitted.job_id);
                }
                Fact::Saw(job) => {
                    self.leases.extend(job.lease().map(|lease| (job.id(), lease.token)));
                }
                Fact::Settled { id, command, .. } => {
                    self.leases.retain(|(_, token)| command.token() != Some(token));
                    self.settled.push((id, command));
                }
                Fact::Erased(id) => self.ids.retain(|known| *known != id),
                Fact::Submitted(..) | Fact::StepDone { .. } => {}
            }
        }
    }

    fn pick<T>(&self, of: impl FnOnce(&Self) -> &Vec<T>) -> Option<&T> {
        let all = of(self);
        // Prefers the newest: old leases and ended jobs are mostly refused.
        let back = self.below(all.len().clamp(1, 12));
        all.iter().rev().nth(back)
    }

    fn job_type(&self) -> JobType {
        JobType::parse(TYPES[self.below(TYPES.len())]).expect("lawful")
    }

    fn tenant(&self) -> Tenant {
        Tenant::parse(["default", "acme"][self.below(2)]).expect("lawful")
    }

    pub(super) fn below(&self, end: usize) -> usize {
        (self.choices.next() % end as u64) as usize
    }
}

const TYPES: [&str; 3] = ["email", "report", "import"];

pub(super) fn command_request(id: JobId, command: Command) -> Request {
    Request::Command { scope: Scope::All, id, command }
}

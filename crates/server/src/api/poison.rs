//! The poison queue: what waits for a person, and what the person decides.

use super::{
    bulk::in_full,
    list::{cursor, next_cursor, top},
    status::status_of,
};
use crate::{
    Door,
    auth::{Caller, CursorOwner},
    guard::Correlation,
    no::Reply,
    sent::{Params, Setting},
};
use axum::{Json, extract::State, http::StatusCode};
use engine::{ErrorCode, Job, JobType};
use platform::{Chosen, PoisonQuery};
use wire::{BulkAnswer, PoisonAnswer, PoisonOrder, PoisonRequest, filter::some_jobs};

pub(crate) async fn list(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
) -> Reply<Json<PoisonAnswer>> {
    params.only(&["jobType", "errorCode", "top", "$top", "cursor"])?;
    let job_type = params.get("jobType").map(JobType::parse).transpose()?;
    let error_code = params.get("errorCode").map(ErrorCode::parse).transpose()?;
    let owner = CursorOwner { list: "/api/poison", scope: caller.scope() };
    let (before, limit) = (cursor(&door, &params, owner).await?, top(&params)?);
    let query = PoisonQuery { scope: caller.scope().clone(), job_type, error_code, before, limit };
    let page = door.node.poisoned(&query, caller.grant()).await?;
    let counts = page.reasons.unwrap_or_default().counts.into_iter();
    Ok(Json(PoisonAnswer {
        items: page.jobs.iter().map(|job| status_of(&caller, job)).collect(),
        next_cursor: next_cursor(&door, owner, page.next)?,
        counts: counts.map(|(code, count)| (code.to_string(), count)).collect(),
    }))
}

/// What a person can decide about jobs in the poison queue.
#[derive(Clone, Copy)]
enum Fate {
    Redrive,
    Discard,
}

pub(crate) async fn redrive(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Setting(request): Setting<PoisonRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    decide(door, caller, &correlation, &request, Fate::Redrive).await
}

pub(crate) async fn discard(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Setting(request): Setting<PoisonRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    decide(door, caller, &correlation, &request, Fate::Discard).await
}

async fn decide(
    door: Door,
    caller: Caller,
    correlation: &Correlation,
    request: &PoisonRequest,
    fate: Fate,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    let chosen = chosen(request)?;
    let action = match fate {
        Fate::Redrive => "poison.redrive",
        Fate::Discard => "poison.discard",
    };
    record(&door, &caller, correlation, action, request).await?;
    let matched = in_full(async move {
        let may = |job: &Job| caller.reaches(job);
        match fate {
            Fate::Redrive => door.node.redrive_matching(caller.scope(), chosen, &may).await,
            Fate::Discard => door.node.discard_matching(caller.scope(), chosen, &may).await,
        }
    });
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched: matched.await?, operation_id: None })))
}

fn chosen(request: &PoisonRequest) -> Reply<Chosen> {
    Ok(match request.check()? {
        PoisonOrder::Jobs(ids) => Chosen::Ids(ids.into_iter().collect()),
        PoisonOrder::Matching(filter) => Chosen::Matching(some_jobs(filter)?),
    })
}

/// Written down before the first job is touched: each job's history tells the rest.
async fn record(
    door: &Door,
    caller: &Caller,
    correlation: &Correlation,
    action: &'static str,
    request: &PoisonRequest,
) -> Reply<()> {
    let target = match (&request.filter, &request.job_ids) {
        (Some(filter), _) => filter.clone(),
        (None, Some(ids)) => ids.join(" "),
        (None, None) => String::new(),
    };
    Ok(door.node.record_action(&caller.actor(correlation), action, &target, None).await?)
}

//! Claim: a worker gets jobs, each under a lease; a worker that is gone gets none.

use crate::{Door, auth::Caller, no::Reply, sent::Sent};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{ReleaseReason, Scope};
use http_body::{Frame, SizeHint};
use platform::Release;
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use store::Claimed;
use tokio::{runtime::Handle, time::sleep};
use wire::{ClaimAnswer, ClaimOrder, ClaimRequest, ClaimedJob};

pub(crate) async fn claim(
    State(door): State<Door>,
    caller: Caller,
    Sent(request): Sent<ClaimRequest>,
) -> Reply<Response> {
    let ClaimOrder { wish, wait } = request.check()?;
    caller.grant().may_claim(&wish.job_types)?;
    let scope = caller.scope().clone();
    let claimed = if wait.is_zero() {
        door.node.claim(&scope, wish).await?
    } else {
        stand(&door, scope, wish, wait).await?
    };
    let jobs = claimed
        .iter()
        .filter_map(|Claimed { job, payload }| Some(ClaimedJob::new(job, job.lease()?, payload)));
    let answer = ClaimAnswer { jobs: jobs.collect() };
    let bytes = serde_json::to_vec(&answer).expect("an answer is texts and numbers");
    let leased = Leased { door: door.clone(), claimed };
    let body = Body::new(Handed { bytes: Some(bytes.into()), leased: Some(leased) });
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Waits for work. Whoever is dropped meanwhile, because its client is gone, leaves nothing leased.
async fn stand(
    door: &Door,
    scope: Scope,
    wish: engine::Wish,
    wait: Duration,
) -> Reply<Vec<Claimed>> {
    let mut standing = door.node.stand(scope, wish);
    tokio::select! {
        claimed = &mut standing => return Ok(claimed?),
        () = sleep(wait) => {}
        () = door.closed() => {}
    }
    Ok(standing.withdraw().await?)
}

/// An answer that was never asked for costs the jobs nothing: they are given back.
struct Handed {
    bytes: Option<Bytes>,
    leased: Option<Leased>,
}

struct Leased {
    door: Door,
    claimed: Vec<Claimed>,
}

impl http_body::Body for Handed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.leased = None; // it is on its way
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let Some(Leased { door, claimed }) = self.leased.take() else { return };
        let back: Vec<Release> = claimed.iter().filter_map(undelivered).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        // Should it fail, the lease's own end will do it.
        runtime.spawn(async move { drop(door.node.release(&Scope::All, back).await) });
    }
}

fn undelivered(claimed: &Claimed) -> Option<Release> {
    Some(Release {
        id: claimed.job.id(),
        token: claimed.job.lease()?.token,
        reason: ReleaseReason::Undelivered,
        delay: Duration::ZERO,
    })
}

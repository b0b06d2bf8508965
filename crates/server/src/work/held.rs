//! Whether a worker that is limited to some job types may speak about these jobs.

use crate::{
    Door,
    auth::Caller,
    no::{No, Reply},
};
use engine::JobId;

/// A lease token is proof enough for those without limits; the others are asked for each job. A job that is not
/// there is left to the verb, which says so.
pub(super) async fn may_speak(door: &Door, caller: &Caller, id: JobId) -> Reply<()> {
    let grant = caller.grant();
    if grant.types.is_empty() && grant.subjects.is_empty() {
        return Ok(());
    }
    match door.node.job(caller.scope(), id).await {
        Ok(job) => Ok(grant.may_touch(&job.envelope)?),
        Err(platform::Error::Refused(_)) => Ok(()),
        Err(error) => Err(No::from(error)),
    }
}

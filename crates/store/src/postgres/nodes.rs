//! Who shares the schema, and which of them does the chores for all.

use super::{
    Inner,
    error::TransactionError,
    locked,
    maintenance::before,
    pool::PooledConnection,
    sql,
    values::{Param, to_i64},
};
use crate::node::{
    ClusterView, Lead, NODE_LOST_AFTER, NODES_KEPT, NodeInfo, NodeRole, NodeStatus, UnconfirmedNode,
};
use engine::Timestamp;

impl Inner {
    /// Notes a sign of life of this node, and finds out who leads.
    pub(super) async fn heartbeat_node(
        &self,
        info: &NodeInfo,
    ) -> Result<ClusterView, TransactionError> {
        let mut db = self.readers.lend().await?;
        let now = self.now(&mut db).await?;
        let attended = db.within(async |db| {
            db.begin().await?;
            let led = lead(db, sql::LEADER_LOCK).await?;
            self.hear_within(db, now).await?;
            put_node(db, info, now, 0).await?;
            db.run(sql::NODES_DROP, &[&before(now, NODES_KEPT)]).await?;
            let lead = led.after(info, now);
            let until = lead.until.unix_ms();
            db.run(sql::LEADER_PUT, &[&lead.node, &lead.fence, &until]).await?;
            let nodes = nodes(db, &lead, now).await?;
            db.script(sql::COMMIT).await?;
            Ok((lead, nodes))
        });
        let (lead, nodes) = attended.await?;
        self.note_heard(now);
        let role = lead.role_of(info, now);
        *locked(&self.role) = role;
        Ok(ClusterView { leads: matches!(role, NodeRole::Leads { .. }), nodes })
    }

    /// Notes a sign of life of this node, and which settings it acts by.
    pub(super) async fn confirm_settings(
        &self,
        info: &NodeInfo,
        version: u64,
    ) -> Result<(), TransactionError> {
        let mut db = self.readers.lend().await?;
        let now = self.now(&mut db).await?;
        db.within(async |db| {
            let put = put_node(db, info, now, to_i64(version));
            tokio::try_join!(biased; db.begin(), put, db.script(sql::COMMIT)).map(drop)
        })
        .await
    }

    /// The nodes that have not confirmed this version of the settings.
    pub(super) async fn unconfirmed_nodes(
        &self,
        db: &mut PooledConnection,
        version: u64,
    ) -> Result<Vec<UnconfirmedNode>, TransactionError> {
        let now = self.now(db).await?;
        let mut unconfirmed = Vec::new();
        for row in db.rows(sql::NODES, &[]).await? {
            let seen_at = Timestamp::from_unix_ms(row.try_get(4)?);
            let confirmed: i64 = row.try_get(5)?;
            if confirmed.unsigned_abs() < version {
                let live = seen_at + NODE_LOST_AFTER > now;
                unconfirmed.push(UnconfirmedNode { id: row.try_get(0)?, live });
            }
        }
        Ok(unconfirmed)
    }

    /// Within a transaction: whether chores that one node does for all may be done here. The fence is held until the
    /// commit, so that nobody else begins to lead in the meantime.
    pub(super) async fn may_do_chores(
        &self,
        db: &PooledConnection,
        now: Timestamp,
    ) -> Result<bool, TransactionError> {
        let role = *locked(&self.role);
        match role {
            NodeRole::Visitor => Ok(true),
            NodeRole::Follows => Ok(false),
            NodeRole::Leads { fence } => Ok(lead(db, sql::LEADER_READ).await?.stands(fence, now)),
        }
    }

    /// Whether it gives signs of life.
    pub(super) fn is_node(&self) -> bool {
        *locked(&self.role) != NodeRole::Visitor
    }
}

async fn put_node(
    db: &PooledConnection,
    info: &NodeInfo,
    now: Timestamp,
    confirmed: i64,
) -> Result<(), TransactionError> {
    let (started_at, seen_at) = (info.started_at.unix_ms(), now.unix_ms());
    let NodeInfo { id, version, draining, .. } = info;
    let params: [Param<'_>; 6] = [id, version, &started_at, draining, &seen_at, &confirmed];
    db.run(sql::NODE_PUT, &params).await.map(drop)
}

/// The version of what was set last.
pub(super) async fn settings_version(db: &PooledConnection) -> Result<u64, TransactionError> {
    let row = db.row(sql::SET_VERSION, &[], "the house has no row").await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

async fn lead(db: &PooledConnection, sql: &str) -> Result<Lead, TransactionError> {
    let row = db.row(sql, &[], "the leader has no row").await?;
    let until = Timestamp::from_unix_ms(row.try_get(2)?);
    Ok(Lead { node: row.try_get(0)?, fence: row.try_get(1)?, until })
}

async fn nodes(
    db: &PooledConnection,
    lead: &Lead,
    now: Timestamp,
) -> Result<Vec<NodeStatus>, TransactionError> {
    let mut nodes = Vec::new();
    for row in db.rows(sql::NODES, &[]).await? {
        let info = NodeInfo {
            id: row.try_get(0)?,
            version: row.try_get(1)?,
            started_at: Timestamp::from_unix_ms(row.try_get(2)?),
            draining: row.try_get(3)?,
        };
        nodes.push(lead.sight(info, Timestamp::from_unix_ms(row.try_get(4)?), now));
    }
    Ok(nodes)
}

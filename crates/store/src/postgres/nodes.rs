//! The nodes that share the schema, and which of them leads.

use super::{
    Inner,
    error::Result,
    locked,
    maintenance::before,
    pool::PooledConnection,
    sql,
    values::{Param, to_i64},
};
use crate::node::{
    ClusterView, Leadership, NODE_LOST_AFTER, NODES_KEPT, NodeInfo, NodeRole, NodeStatus,
    UnconfirmedNode,
};
use engine::Timestamp;

impl Inner {
    /// Records a heartbeat of this node, and determines which node leads.
    pub(super) async fn heartbeat_node(&self, info: &NodeInfo) -> Result<ClusterView> {
        let mut db = self.readers.acquire().await?;
        let now = self.now(&mut db).await?;
        let heartbeat = db.in_transaction(async |db| {
            db.begin().await?;
            let previous = read_lead(db, sql::LEADER_LOCK).await?;
            self.heartbeat_liveness(db, now).await?;
            put_node(db, info, now, 0).await?;
            db.run(sql::NODES_DROP, &[&before(now, NODES_KEPT)]).await?;
            let lead = previous.after(info, now);
            let until = lead.until.unix_ms();
            db.run(sql::LEADER_PUT, &[&lead.node, &lead.fence, &until]).await?;
            let nodes = nodes(db, &lead, now).await?;
            db.script(sql::COMMIT).await?;
            Ok((lead, nodes))
        });
        let (lead, nodes) = heartbeat.await?;
        self.note_liveness_written(now);
        let role = lead.role_of(info, now);
        *locked(&self.role) = role;
        Ok(ClusterView { leads: matches!(role, NodeRole::Leads { .. }), nodes })
    }

    /// Records a heartbeat of this node, and which settings it acts by.
    pub(super) async fn confirm_settings(&self, info: &NodeInfo, version: u64) -> Result<()> {
        let mut db = self.readers.acquire().await?;
        let now = self.now(&mut db).await?;
        db.in_transaction(async |db| {
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
    ) -> Result<Vec<UnconfirmedNode>> {
        let now = self.now(db).await?;
        let mut unconfirmed = Vec::new();
        for row in db.rows(sql::NODES, &[]).await? {
            let seen_at = Timestamp::from_unix_ms(row.try_get("seen_at")?);
            let confirmed_version: i64 = row.try_get("confirmed_version")?;
            if confirmed_version.unsigned_abs() < version {
                let live = seen_at + NODE_LOST_AFTER > now;
                unconfirmed.push(UnconfirmedNode { id: row.try_get("id")?, live });
            }
        }
        Ok(unconfirmed)
    }

    /// Within a transaction: whether this node may do the leader's maintenance. The fence is locked
    /// until the commit, so that no other node takes the lead in the meantime.
    pub(super) async fn may_maintain(&self, db: &PooledConnection, now: Timestamp) -> Result<bool> {
        let role = *locked(&self.role);
        match role {
            NodeRole::Tool => Ok(true),
            NodeRole::Follows => Ok(false),
            NodeRole::Leads { fence } => {
                Ok(read_lead(db, sql::LEADER_READ).await?.is_in_force(fence, now))
            }
        }
    }

    /// Whether this process is a node, which sends heartbeats. A tool sends none.
    pub(super) fn is_node(&self) -> bool {
        *locked(&self.role) != NodeRole::Tool
    }
}

async fn put_node(
    db: &PooledConnection,
    info: &NodeInfo,
    now: Timestamp,
    confirmed_version: i64,
) -> Result<()> {
    let NodeInfo { id, host, pid, address, version, started_at, draining } = info;
    let (pid, started_at, seen_at) = (i64::from(*pid), started_at.unix_ms(), now.unix_ms());
    let params: [Param<'_>; 9] =
        [id, host, &pid, address, version, &started_at, draining, &seen_at, &confirmed_version];
    db.run(sql::NODE_PUT, &params).await
}

/// The version of the records that were set last.
pub(super) async fn settings_version(db: &PooledConnection) -> Result<u64> {
    let row = db.row(sql::RECORD_VERSION, &[], "store_meta has no row").await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

async fn read_lead(db: &PooledConnection, sql: &str) -> Result<Leadership> {
    let row = db.row(sql, &[], "the table leader has no row").await?;
    let until = Timestamp::from_unix_ms(row.try_get(2)?);
    Ok(Leadership { node: row.try_get(0)?, fence: row.try_get(1)?, until })
}

async fn nodes(
    db: &PooledConnection,
    lead: &Leadership,
    now: Timestamp,
) -> Result<Vec<NodeStatus>> {
    let mut nodes = Vec::new();
    for row in db.rows(sql::NODES, &[]).await? {
        let info = NodeInfo {
            id: row.try_get("id")?,
            host: row.try_get("host")?,
            pid: u32::try_from(row.try_get::<_, i64>("pid")?).unwrap_or_default(),
            address: row.try_get("address")?,
            version: row.try_get("version")?,
            started_at: Timestamp::from_unix_ms(row.try_get("started_at")?),
            draining: row.try_get("draining")?,
        };
        let seen_at = Timestamp::from_unix_ms(row.try_get("seen_at")?);
        nodes.push(lead.status_of(info, seen_at, now));
    }
    Ok(nodes)
}

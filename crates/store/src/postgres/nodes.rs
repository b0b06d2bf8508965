//! Who shares the schema, and which of them does the chores for all.

use super::{
    Inner,
    error::Trouble,
    pool::{Lent, Param},
    sql,
};
use crate::node::{Attendance, LEADS_FOR, NODE_LOST_AFTER, NODES_KEPT, NodeCard, NodeSeen};
use engine::Timestamp;
use std::time::Duration;
use tokio_postgres::types::Type;

/// What this store knows of its own part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// It never said that it is a node: a tool, which may do what it is asked.
    #[default]
    Visitor,
    /// It is a node, and another one leads.
    Follows,
    /// It leads, as long as nobody else took the fence.
    Leads { fence: i64 },
}

/// Who leads.
struct Lead {
    node: Option<String>,
    fence: i64,
    until: i64,
}

impl Inner {
    /// Notes a sign of life of this node, and finds out who leads.
    pub(super) async fn attend(
        &self,
        db: &mut Lent,
        card: &NodeCard,
    ) -> Result<Attendance, Trouble> {
        let now = self.now(db).await?;
        db.opened();
        let attended = self.attend_within(db, card, now).await;
        db.end(&attended).await;
        let (lead, nodes) = attended?;
        let leads = lead.node.as_deref() == Some(&*card.id);
        let part = if leads { Part::Leads { fence: lead.fence } } else { Part::Follows };
        self.play(part);
        Ok(Attendance { leads, nodes })
    }

    async fn attend_within(
        &self,
        db: &Lent,
        card: &NodeCard,
        now: Timestamp,
    ) -> Result<(Lead, Vec<NodeSeen>), Trouble> {
        db.begin().await?;
        let before = lead(db, sql::LEADER_LOCK).await?;
        self.hear_within(db, now).await?;
        let at = now.unix_ms();
        let started_at = card.started_at.unix_ms();
        let put: [Param<'_>; 5] = [
            (&card.id, Type::TEXT),
            (&card.version, Type::TEXT),
            (&started_at, Type::INT8),
            (&card.draining, Type::BOOL),
            (&at, Type::INT8),
        ];
        db.run(sql::NODE_PUT, &put).await?;
        let old = at - millis(NODES_KEPT);
        db.run(sql::NODES_DROP, &[(&old, Type::INT8)]).await?;
        let lead = before.after(card, at);
        let put: [Param<'_>; 3] =
            [(&lead.node, Type::TEXT), (&lead.fence, Type::INT8), (&lead.until, Type::INT8)];
        db.run(sql::LEADER_PUT, &put).await?;
        let nodes = nodes(db, &lead, at).await?;
        db.script(sql::COMMIT).await?;
        Ok((lead, nodes))
    }

    /// Within a transaction: whether chores that one node does for all may be done here. The fence is held until the
    /// commit, so that nobody else begins to lead in the meantime.
    pub(super) async fn may_do_chores(&self, db: &Lent, now: Timestamp) -> Result<bool, Trouble> {
        match self.part() {
            Part::Visitor => Ok(true),
            Part::Follows => Ok(false),
            Part::Leads { fence } => {
                let lead = lead(db, sql::LEADER_READ).await?;
                Ok(lead.fence == fence && lead.until > now.unix_ms())
            }
        }
    }

    /// Whether it gives signs of life.
    pub(super) fn is_node(&self) -> bool {
        self.part() != Part::Visitor
    }

    fn part(&self) -> Part {
        *self.part.lock().expect("nothing panics with this in hand")
    }

    fn play(&self, part: Part) {
        *self.part.lock().expect("nothing panics with this in hand") = part;
    }
}

impl Lead {
    /// Who leads after a node has given a sign of life.
    fn after(self, card: &NodeCard, now: i64) -> Self {
        let own = self.node.as_deref() == Some(&*card.id);
        let vacant = self.node.is_none() || self.until <= now;
        match (own && !vacant, vacant, card.draining) {
            (true, _, true) => Lead { node: None, ..self },
            (true, _, false) => Lead { until: now + millis(LEADS_FOR), ..self },
            (false, true, false) => Lead {
                node: Some(card.id.clone()),
                fence: self.fence + 1,
                until: now + millis(LEADS_FOR),
            },
            (false, true, true) => Lead { node: None, ..self },
            (false, false, _) => self,
        }
    }
}

async fn lead(db: &Lent, sql: &str) -> Result<Lead, Trouble> {
    let rows = db.rows(sql, &[]).await?;
    let row = rows.first().ok_or(Trouble::Impossible("the leader has no row"))?;
    Ok(Lead { node: row.try_get(0)?, fence: row.try_get(1)?, until: row.try_get(2)? })
}

async fn nodes(db: &Lent, lead: &Lead, now: i64) -> Result<Vec<NodeSeen>, Trouble> {
    let mut nodes = Vec::new();
    for row in db.rows(sql::NODES, &[]).await? {
        let (id, seen_at): (String, i64) = (row.try_get(0)?, row.try_get(4)?);
        let leads = lead.until > now && lead.node.as_deref() == Some(&*id);
        let card = NodeCard {
            id,
            version: row.try_get(1)?,
            started_at: Timestamp::from_unix_ms(row.try_get(2)?),
            draining: row.try_get(3)?,
        };
        let live = now - seen_at < millis(NODE_LOST_AFTER);
        nodes.push(NodeSeen { card, seen_at: Timestamp::from_unix_ms(seen_at), live, leads });
    }
    Ok(nodes)
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

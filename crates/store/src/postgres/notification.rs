//! Notifications between nodes: hints over LISTEN and NOTIFY, outside every transaction that writes
//! jobs.
//!
//! A NOTIFY inside a transaction makes all commits of the database wait for each other. So the
//! events of a few milliseconds go out together, afterwards: behind a commit, or on a connection of
//! their own. A node that misses a hint finds the change a moment later, when it polls.

use super::{
    locked,
    pool::{Connector, UndrivenConnection},
};
use crate::node::Notification;
use engine::JobType;
use std::{
    collections::BTreeSet,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client};
use tracing::debug;

/// Notifications to send to other nodes, and notifications received from them.
pub(super) struct NotificationQueue {
    pub(super) outgoing: Mailbox,
    /// Received from other nodes. The inbox task also puts its own here, to wake claims and watches
    /// of this node.
    pub(super) incoming: Mailbox,
    /// Wakes the inbox task when an application's transaction has enqueued a job.
    pub(super) enqueued: Notify,
    /// Marks this node's own notifications, which PostgreSQL sends back to it: it ignores them.
    pub(super) own_token: u64,
    /// The channel on which all nodes of this schema listen.
    channel: String,
    /// Notifications before this time are sent together.
    gather_until: Mutex<Instant>,
}

#[derive(Default)]
pub(super) struct Mailbox {
    notification: Mutex<Notification>,
    arrived: Notify,
}

/// Notifications within this time after a NOTIFY are sent together.
const GATHER: Duration = Duration::from_millis(5);
/// The time before a broken connection is opened again.
const RETRY: Duration = Duration::from_millis(500);
/// A NOTIFY that takes longer than this counts as lost.
const NOTIFY_MAX: Duration = Duration::from_secs(5);
/// PostgreSQL's limit is 8,000 bytes. A longer list of job types becomes "any".
const BYTES_MAX: usize = 7_000;

/// The payload that `consign.enqueue` sends.
const ENQUEUED: &str = "inbox";

impl Mailbox {
    pub(super) fn put(&self, notification: Notification) {
        if notification.is_empty() {
            return;
        }
        locked(&self.notification).add(notification);
        self.arrived.notify_one();
    }

    /// Waits until there is a notification, and takes it.
    pub(super) async fn take(&self) -> Notification {
        loop {
            let notification = std::mem::take(&mut *locked(&self.notification));
            if !notification.is_empty() {
                return notification;
            }
            self.arrived.notified().await;
        }
    }
}

impl NotificationQueue {
    pub(super) fn new(own_token: u64, schema: &str) -> Arc<Self> {
        Arc::new(NotificationQueue {
            outgoing: Mailbox::default(),
            incoming: Mailbox::default(),
            enqueued: Notify::new(),
            own_token,
            channel: format!("consign_{schema}"),
            gather_until: Mutex::new(Instant::now()),
        })
    }

    /// All notifications to send together with this one, and the NOTIFY statement for them. If one
    /// was sent a moment ago, there is no statement, and this notification goes out with the next.
    pub(super) fn notify_statement(
        &self,
        notification: &Notification,
    ) -> (Notification, Option<String>) {
        let mut all = notification.clone();
        if notification.is_empty() || self.start_gathering().is_err() {
            return (all, None);
        }
        all.add(std::mem::take(&mut *locked(&self.outgoing.notification)));
        let notify_statement = self.notify_sql(&all);
        (all, Some(notify_statement))
    }

    /// Checks that a notification may go out now. Those that come within a few milliseconds of it
    /// go out together, not before the time that is returned as the error.
    fn start_gathering(&self) -> Result<(), Instant> {
        let mut until = locked(&self.gather_until);
        let now = Instant::now();
        if now < *until {
            return Err(*until);
        }
        *until = now + GATHER;
        Ok(())
    }

    fn notify_sql(&self, notification: &Notification) -> String {
        // Neither numbers nor names of types contain a quote.
        let text = encoded(self.own_token, notification).replace('\'', "");
        format!("notify {}, '{text}'", self.channel)
    }

    /// Listens and sends for as long as the store is open.
    pub(super) async fn run(self: Arc<Self>, connector: Connector) {
        loop {
            if let Err(error) = self.use_connection(&connector).await {
                let error: &dyn std::error::Error = &error;
                debug!(
                    error,
                    "no connection for notifications: this node only polls until it has one"
                );
            }
            sleep(RETRY).await;
            // Notifications were lost while there was no connection, so everything may have
            // changed.
            let (any_work, touched, settings) = (true, true, true);
            self.incoming.put(Notification {
                any_work,
                touched,
                settings,
                ..Notification::default()
            });
        }
    }

    /// Uses one connection until it ends.
    async fn use_connection(
        self: &Arc<Self>,
        connector: &Connector,
    ) -> Result<(), super::error::PostgresError> {
        let failed = |source| connector.unreachable(source);
        let (client, connection) = connector.dial("").await.map_err(failed)?;
        // Dropping the set ends the task.
        let mut listening = JoinSet::new();
        listening.spawn_on(self.clone().listen(connection), &connector.runtime);
        client.batch_execute(&format!("listen {}", self.channel)).await.map_err(failed)?;
        let mut pause = pin!(sleep(Duration::ZERO));
        let mut is_paused = false;
        loop {
            tokio::select! {
                _ended = listening.join_next() => return Ok(()),
                notification = self.outgoing.take(), if !is_paused => match self.start_gathering() {
                    Ok(()) => self.send(&client, &notification).await.map_err(failed)?,
                    Err(until) => {
                        self.outgoing.put(notification);
                        pause.as_mut().reset(until);
                        is_paused = true;
                    }
                },
                () = &mut pause, if is_paused => is_paused = false,
            }
        }
    }

    async fn send(
        &self,
        client: &Client,
        notification: &Notification,
    ) -> Result<(), tokio_postgres::Error> {
        let notify = self.notify_sql(notification);
        timeout(NOTIFY_MAX, client.batch_execute(&notify)).await.unwrap_or(Ok(()))
    }

    /// Drives a connection, and handles the notifications it receives.
    async fn listen(self: Arc<Self>, mut connection: UndrivenConnection) {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                self.receive(note.payload());
            }
        }
    }

    fn receive(&self, message: &str) {
        if message == ENQUEUED {
            return self.enqueued.notify_one();
        }
        if let Some((from, notification)) = decoded(message)
            && from != self.own_token
        {
            self.incoming.put(notification);
        }
    }
}

/// `from touched settings any type type …`
fn encoded(from: u64, notification: &Notification) -> String {
    let types: usize = notification.work.iter().map(|job_type| job_type.as_str().len() + 1).sum();
    let (touched, settings) = (u8::from(notification.touched), u8::from(notification.settings));
    if types > BYTES_MAX {
        return format!("{from} {touched} {settings} 1");
    }
    let mut text = format!("{from} {touched} {settings} {}", u8::from(notification.any_work));
    for job_type in &notification.work {
        text.push(' ');
        text.push_str(job_type.as_str());
    }
    text
}

fn decoded(message: &str) -> Option<(u64, Notification)> {
    let mut words = message.split(' ');
    let from = words.next()?.parse().ok()?;
    let mut is_set = || Some(words.next()? == "1");
    let (touched, settings, any_work) = (is_set()?, is_set()?, is_set()?);
    let work: BTreeSet<JobType> = words.filter_map(|word| JobType::parse(word).ok()).collect();
    Some((from, Notification { work, any_work, touched, settings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_decodes_as_it_was_encoded() {
        let types = ["email", "order.ship"].map(|name| JobType::parse(name).unwrap());
        let notification =
            Notification { work: types.into(), any_work: false, touched: true, settings: true };
        assert_eq!(decoded(&encoded(7, &notification)), Some((7, notification)));
        let nothing = Notification { any_work: true, ..Notification::default() };
        assert_eq!(decoded(&encoded(u64::MAX, &nothing)), Some((u64::MAX, nothing)));
        assert_eq!(decoded("what"), None);
    }

    #[test]
    fn the_first_notification_goes_out_at_once_and_later_ones_together() {
        let notifications = NotificationQueue::new(7, "consign");
        let touched = Notification { touched: true, ..Notification::default() };
        let any = Notification { any_work: true, ..Notification::default() };
        let notify_statement =
            |notification: &Notification| notifications.notify_statement(notification).1;
        assert_eq!(notify_statement(&Notification::default()), None, "nothing needs no NOTIFY");
        assert_eq!(
            notify_statement(&touched).as_deref(),
            Some("notify consign_consign, '7 1 0 0'")
        );
        assert_eq!(
            notifications.notify_statement(&any),
            (any.clone(), None),
            "it goes out with the next"
        );
        notifications.outgoing.put(any);
        *notifications.gather_until.lock().unwrap() -= GATHER;
        assert_eq!(
            notify_statement(&touched).as_deref(),
            Some("notify consign_consign, '7 1 0 1'")
        );
        assert!(
            locked(&notifications.outgoing.notification).is_empty(),
            "it need not be sent again"
        );
    }

    #[test]
    fn too_many_types_are_all_types() {
        let types = (0..1_000).map(|n| JobType::parse(&format!("a-long-name-{n}")).unwrap());
        let notification = Notification { work: types.collect(), ..Notification::default() };
        let (_, received) = decoded(&encoded(1, &notification)).unwrap();
        assert!(received.any_work && received.work.is_empty());
    }
}

//! How the nodes that share a memory store notify each other: each handle has an inbox, and a
//! notification goes to the inboxes of all other handles.

use crate::node::Notification;
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, Weak},
};
use tokio::sync::watch;

/// The inboxes of all handles of one store.
#[derive(Default)]
pub(super) struct NotificationHub(Mutex<Vec<Weak<NotificationInbox>>>);

impl NotificationHub {
    /// Adds the inbox of another handle.
    pub(super) fn join(&self) -> Arc<NotificationInbox> {
        let inbox = Arc::new(NotificationInbox::default());
        let mut inboxes = self.inboxes();
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        drop(inboxes);
        inbox
    }

    /// Puts a notification into every inbox but the sender's.
    pub(super) fn notify_others(
        &self,
        sender: &Arc<NotificationInbox>,
        notification: &Notification,
    ) {
        let inboxes: Vec<Arc<NotificationInbox>> =
            self.inboxes().iter().filter_map(Weak::upgrade).collect();
        let others = inboxes.iter().filter(|inbox| !Arc::ptr_eq(inbox, sender));
        others.for_each(|inbox| inbox.0.send_modify(|waiting| waiting.add(notification.clone())));
    }

    fn inboxes(&self) -> MutexGuard<'_, Vec<Weak<NotificationInbox>>> {
        self.0.lock().expect("no thread panics while it holds the lock on the inboxes")
    }
}

/// The notifications that one node received and has not taken yet.
#[derive(Default)]
pub(super) struct NotificationInbox(watch::Sender<Notification>);

impl NotificationInbox {
    /// Takes everything that was sent, as soon as there is something.
    pub(super) async fn take(&self) -> Notification {
        let mut inbox = self.0.subscribe();
        drop(inbox.wait_for(|waiting| !waiting.is_empty()).await); // we hold the sender
        let mut taken = Notification::default();
        self.0.send_if_modified(|waiting| {
            taken = mem::take(waiting);
            false
        });
        taken
    }
}

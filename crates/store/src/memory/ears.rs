//! How the nodes that share a memory store hear each other: each handle has an ear, and whoever tells
//! something tells it to the ears of all others.

use crate::node::News;
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, Weak},
};
use tokio::sync::watch;

/// Everybody who shares a store.
#[derive(Default)]
pub(super) struct Square(Mutex<Vec<Weak<Ear>>>);

impl Square {
    /// Somebody comes who wants to hear.
    pub(super) fn join(&self) -> Arc<Ear> {
        let ear = Arc::new(Ear::default());
        let mut ears = self.ears();
        ears.retain(|ear| ear.strong_count() > 0);
        ears.push(Arc::downgrade(&ear));
        drop(ears);
        ear
    }

    /// Everybody hears it but the speaker.
    pub(super) fn tell(&self, speaker: &Arc<Ear>, news: &News) {
        let ears: Vec<Arc<Ear>> = self.ears().iter().filter_map(Weak::upgrade).collect();
        let others = ears.iter().filter(|ear| !Arc::ptr_eq(ear, speaker));
        others.for_each(|ear| ear.0.send_modify(|heard| heard.add(news.clone())));
    }

    fn ears(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.0.lock().expect("no code of ours panics with the ears in hand")
    }
}

/// What one node has heard and not taken in yet.
#[derive(Default)]
pub(super) struct Ear(watch::Sender<News>);

impl Ear {
    /// What there is to hear, as soon as there is something.
    pub(super) async fn news(&self) -> News {
        let mut heard = self.0.subscribe();
        drop(heard.wait_for(|news| !news.is_empty()).await); // the sender is here, so it is not closed
        let mut news = News::default();
        self.0.send_if_modified(|heard| {
            news = mem::take(heard);
            false
        });
        news
    }
}

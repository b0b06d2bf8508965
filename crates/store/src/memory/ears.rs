//! How the nodes that share a memory store hear each other: each handle has an ear, and whoever tells
//! something tells it to the ears of all others.

use crate::node::News;
use std::{
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, Weak},
    task::{Context, Poll, Waker},
};

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
        others.for_each(|ear| ear.hear(news.clone()));
    }

    fn ears(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.0.lock().expect(UNPOISONED)
    }
}

/// What one node has heard and not taken in yet.
#[derive(Default)]
pub(super) struct Ear(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    news: News,
    waker: Option<Waker>,
}

impl Ear {
    /// What there is to hear, as soon as there is something.
    pub(super) async fn news(&self) -> News {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<News> {
        let mut heard = self.heard();
        if !heard.news.is_empty() {
            return Poll::Ready(mem::take(&mut heard.news));
        }
        let before = heard.waker.replace(cx.waker().clone());
        drop(heard);
        drop(before); // a waker may run code of others, also when it is dropped
        Poll::Pending
    }

    fn hear(&self, news: News) {
        let mut heard = self.heard();
        heard.news.add(news);
        let waker = heard.waker.take();
        drop(heard);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no code of ours panics with an ear in hand";

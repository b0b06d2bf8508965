//! What nodes let each other know: hints over LISTEN and NOTIFY, outside every transaction that writes jobs.
//!
//! A NOTIFY inside a transaction makes all commits of the database wait for each other, so what happened within a
//! few milliseconds is told together, afterwards: behind a commit, or by a connection of its own. Whoever misses a hint
//! looks by itself a moment later.

use super::{
    locked,
    pool::{Dialled, Way},
};
use crate::node::News;
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

/// News to tell and news that were heard.
pub(super) struct Post {
    pub(super) out: Tray,
    /// What this node did by itself is news to whoever waits here, too.
    pub(super) inbox: Tray,
    /// Something was enqueued in somebody's own transaction.
    pub(super) enqueued: Notify,
    /// Tells our own news from those of others.
    pub(super) own: u64,
    /// Where all nodes of this schema listen.
    channel: String,
    /// What happens before this is told together.
    gathers_until: Mutex<Instant>,
}

#[derive(Default)]
pub(super) struct Tray {
    news: Mutex<News>,
    came: Notify,
}

/// What happens within so long after a word is told together.
const GATHER: Duration = Duration::from_millis(5);
/// A connection that broke is made again after about so long.
const RETRY: Duration = Duration::from_millis(500);
/// A NOTIFY that takes longer than this has got lost.
const TELL_MAX: Duration = Duration::from_secs(5);
/// A message of PostgreSQL has no more than 8,000 bytes; who would need more says "any".
const BYTES_MAX: usize = 7_000;

/// What `consign.enqueue` says.
const ENQUEUED: &str = "inbox";

impl Tray {
    pub(super) fn put(&self, news: News) {
        if news.is_empty() {
            return;
        }
        locked(&self.news).add(news);
        self.came.notify_one();
    }

    /// Waits until there is something, and takes it.
    pub(super) async fn take(&self) -> News {
        loop {
            let news = std::mem::take(&mut *locked(&self.news));
            if !news.is_empty() {
                return news;
            }
            self.came.notified().await;
        }
    }
}

impl Post {
    pub(super) fn new(own: u64, schema: &str) -> Arc<Self> {
        Arc::new(Post {
            out: Tray::default(),
            inbox: Tray::default(),
            enqueued: Notify::new(),
            own,
            channel: format!("consign_{schema}"),
            gathers_until: Mutex::new(Instant::now()),
        })
    }

    /// All that is to be told when these are, and the statement that does it. None where something was told a moment ago: then
    /// they are to be told with what follows.
    pub(super) fn word(&self, news: &News) -> (News, Option<String>) {
        let mut all = news.clone();
        if news.is_empty() || self.begin_to_gather().is_err() {
            return (all, None);
        }
        all.add(std::mem::take(&mut *locked(&self.out.news)));
        let word = self.written(&all);
        (all, Some(word))
    }

    /// The first word goes out at once, what follows it goes out together, and not before the moment that is given back.
    fn begin_to_gather(&self) -> Result<(), Instant> {
        let mut until = locked(&self.gathers_until);
        let now = Instant::now();
        if now < *until {
            return Err(*until);
        }
        *until = now + GATHER;
        Ok(())
    }

    fn written(&self, news: &News) -> String {
        // There is no quote in a number or in the name of a type.
        let text = written(self.own, news).replace('\'', "");
        format!("notify {}, '{text}'", self.channel)
    }

    /// Listens and tells for as long as the store is there.
    pub(super) async fn run(self: Arc<Self>, way: Way) {
        loop {
            if let Err(error) = self.connected(&way).await {
                let error: &dyn std::error::Error = &error;
                debug!(error, "no news of other nodes can be heard");
            }
            sleep(RETRY).await;
            // Whatever was said in the meantime was not heard.
            let (any_work, touched, settings) = (true, true, true);
            self.inbox.put(News { any_work, touched, settings, ..News::default() });
        }
    }

    /// One connection, as long as it lasts.
    async fn connected(self: &Arc<Self>, way: &Way) -> Result<(), super::error::PostgresError> {
        let failed = |source| way.unreachable(source);
        let (client, connection) = way.dial("").await.map_err(failed)?;
        // The task ends with this value.
        let mut listening = JoinSet::new();
        listening.spawn_on(self.clone().listen(connection), &way.runtime);
        client.batch_execute(&format!("listen {}", self.channel)).await.map_err(failed)?;
        let mut pause = pin!(sleep(Duration::ZERO));
        let mut paused = false;
        loop {
            tokio::select! {
                _ended = listening.join_next() => return Ok(()),
                news = self.out.take(), if !paused => match self.begin_to_gather() {
                    Ok(()) => self.send(&client, &news).await.map_err(failed)?,
                    Err(until) => {
                        self.out.put(news);
                        pause.as_mut().reset(until);
                        paused = true;
                    }
                },
                () = &mut pause, if paused => paused = false,
            }
        }
    }

    async fn send(&self, client: &Client, news: &News) -> Result<(), tokio_postgres::Error> {
        let notify = self.written(news);
        timeout(TELL_MAX, client.batch_execute(&notify)).await.unwrap_or(Ok(()))
    }

    /// Drives a connection, and hears what comes over it.
    async fn listen(self: Arc<Self>, mut connection: Dialled) {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                self.hear(note.payload());
            }
        }
    }

    fn hear(&self, message: &str) {
        if message == ENQUEUED {
            return self.enqueued.notify_one();
        }
        if let Some((from, news)) = read(message)
            && from != self.own
        {
            self.inbox.put(news);
        }
    }
}

/// `from touched settings any type type …`
fn written(from: u64, news: &News) -> String {
    let types: usize = news.work.iter().map(|job_type| job_type.as_str().len() + 1).sum();
    let (touched, settings) = (u8::from(news.touched), u8::from(news.settings));
    if types > BYTES_MAX {
        return format!("{from} {touched} {settings} 1");
    }
    let mut text = format!("{from} {touched} {settings} {}", u8::from(news.any_work));
    for job_type in &news.work {
        text.push(' ');
        text.push_str(job_type.as_str());
    }
    text
}

fn read(message: &str) -> Option<(u64, News)> {
    let mut words = message.split(' ');
    let from = words.next()?.parse().ok()?;
    let mut is_set = || Some(words.next()? == "1");
    let (touched, settings, any_work) = (is_set()?, is_set()?, is_set()?);
    let work: BTreeSet<JobType> = words.filter_map(|word| JobType::parse(word).ok()).collect();
    Some((from, News { work, any_work, touched, settings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_arrive_as_they_were_told() {
        let types = ["email", "order.ship"].map(|name| JobType::parse(name).unwrap());
        let news = News { work: types.into(), any_work: false, touched: true, settings: true };
        assert_eq!(read(&written(7, &news)), Some((7, news)));
        let nothing = News { any_work: true, ..News::default() };
        assert_eq!(read(&written(u64::MAX, &nothing)), Some((u64::MAX, nothing)));
        assert_eq!(read("what"), None);
    }

    #[test]
    fn the_first_word_goes_out_at_once_and_what_follows_it_together() {
        let post = Post::new(7, "consign");
        let touched = News { touched: true, ..News::default() };
        let any = News { any_work: true, ..News::default() };
        let word = |news: &News| post.word(news).1;
        assert_eq!(word(&News::default()), None, "nothing is not worth a word");
        assert_eq!(word(&touched).as_deref(), Some("notify consign_consign, '7 1 0 0'"));
        assert_eq!(post.word(&any), (any.clone(), None), "it is told with what follows");
        post.out.put(any);
        *post.gathers_until.lock().unwrap() -= GATHER;
        assert_eq!(word(&touched).as_deref(), Some("notify consign_consign, '7 1 0 1'"));
        assert!(locked(&post.out.news).is_empty(), "nobody need tell it again");
    }

    #[test]
    fn too_many_types_are_all_types() {
        let types = (0..1_000).map(|n| JobType::parse(&format!("a-long-name-{n}")).unwrap());
        let news = News { work: types.collect(), ..News::default() };
        let (_, heard) = read(&written(1, &news)).unwrap();
        assert!(heard.any_work && heard.work.is_empty());
    }
}

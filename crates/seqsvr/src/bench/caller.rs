//! One caller of the SDK or of unary RPCs: one call after the other, each verified and measured.

use rand::rngs::SmallRng;
use seqsvr_client::{Client, Current, Error, Key, NextItem, Numbers};
use tokio::time::Instant;

use super::checker::{Asked, Checker, Got, Tally};
use super::plain::Plain;
use crate::cli::Mode;

/// How a caller sends its calls.
#[derive(Clone)]
pub(crate) enum Asker {
    /// Through the SDK, which merges the calls of many callers.
    Sdk(Client),
    /// As any gRPC client: each call is one request.
    Unary(Plain),
}

/// One caller, with one call in flight at a time.
pub(crate) struct Caller {
    pub(crate) checker: Checker,
    pub(crate) asker: Asker,
    /// Index of the caller.
    pub(crate) number: usize,
    pub(crate) rng: SmallRng,
    /// Items of its call; their memory is reused for its next call.
    pub(crate) asked: Asked,
}

/// Answers to the items of a call, in their order.
pub(crate) enum Answers {
    Numbers(Vec<Result<Numbers, Error>>),
    Current(Vec<Result<Current, Error>>),
}

impl Caller {
    /// Makes calls until the run is over.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) async fn run(mut self) -> Result<(), seqsvr_check::Error> {
        let run = self.checker.run.clone();
        let mut now = Instant::now();
        while let Some(due) = run.pace.turn(now).await {
            let mut tally = Tally::default();
            let begin = self.checker.begin(self.number, due);
            let first = run.keys.pick_namespace(&mut self.rng);
            run.choose(first, &mut self.rng, &mut self.asked);
            if run.mode == Mode::Next {
                let got = self.next(self.asked.keys[0]).await;
                now = Instant::now();
                let got = std::iter::once(got.map(Got::Numbers));
                let checker = &mut self.checker;
                checker.settle(&self.asked, got, begin, now, &mut tally)?;
            } else {
                let answers = self.ask(&self.asked.keys).await;
                now = Instant::now();
                let checker = &mut self.checker;
                match answers {
                    Answers::Numbers(all) => {
                        let got = all.into_iter().map(|got| got.map(Got::Numbers));
                        checker.settle(&self.asked, got, begin, now, &mut tally)?;
                    }
                    Answers::Current(all) => {
                        let got = all.into_iter().map(|got| got.map(Got::Current));
                        checker.settle(&self.asked, got, begin, now, &mut tally)?;
                    }
                }
            }
            self.checker.end(self.number, due, now, tally);
        }
        self.checker.leave(self.number);
        Ok(())
    }

    /// Takes the next number or numbers of one key.
    async fn next(&self, key: u32) -> Result<Numbers, Error> {
        let run = &self.checker.run;
        let (namespace, key) = (run.keys.namespace(key), run.keys.key(key));
        match &self.asker {
            Asker::Sdk(client) => client.next(namespace, key, run.count).await,
            // Boxed, here and below: otherwise the future of each of a thousand SDK callers would
            // reserve memory for it.
            Asker::Unary(plain) => Box::pin(plain.next(namespace, key, run.count)).await,
        }
    }

    async fn ask(&self, keys: &[u32]) -> Answers {
        let run = &self.checker.run;
        let namespace = run.keys.namespace(keys[0]);
        let keys = keys.iter().copied();
        match &self.asker {
            Asker::Sdk(client) => self.ask_sdk(client, namespace, keys).await,
            Asker::Unary(plain) => {
                let keys = run.keys.columns(keys);
                Box::pin(plain.ask(run.mode, namespace, keys, run.count)).await
            }
        }
    }

    async fn ask_sdk(
        &self,
        client: &Client,
        namespace: &str,
        keys: impl ExactSizeIterator<Item = u32>,
    ) -> Answers {
        let run = &self.checker.run;
        match run.mode {
            Mode::Next | Mode::NextMany | Mode::Pipe => Answers::Numbers(match run.count {
                1 => {
                    let (uids, keys) = run.keys.columns(keys);
                    let keys: Vec<Key> = keys.into_iter().map(Key::from).collect();
                    match keys.is_empty() {
                        true => client.next_many(namespace, &uids).await,
                        false => client.next_many(namespace, &keys).await,
                    }
                }
                count => {
                    let item = |key| NextItem {
                        count,
                        ..NextItem::new(key)
                    };
                    let items = run.keys.each(keys, item);
                    client.next_many(namespace, &items).await
                }
            }),
            Mode::Current => {
                let keys = run.keys.each(keys, |key| key);
                Answers::Current(match keys.as_slice() {
                    [one] => vec![client.current(namespace, one.clone()).await],
                    all => client.current_many(namespace, all).await,
                })
            }
        }
    }
}

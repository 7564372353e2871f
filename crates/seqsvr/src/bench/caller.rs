//! One caller: a call after the other, each verified and measured.

use rand::rngs::SmallRng;
use seqsvr_client::{Client, Current, Error, Key, NextItem, Numbers};
use tokio::time::Instant;

use super::checker::{Asked, Checker, Got, Tally};
use super::plain::Plain;
use crate::cli::Mode;

/// How a caller asks.
#[derive(Clone)]
pub(crate) enum Asker {
    /// As programs that use this project's client do: what many callers ask is merged.
    Sdk(Client),
    /// As any gRPC client can: each call is one request.
    Unary(Plain),
}

/// One caller.
pub(crate) struct Caller {
    pub(crate) checker: Checker,
    pub(crate) asker: Asker,
    /// Which one it is.
    pub(crate) number: usize,
    pub(crate) rng: SmallRng,
}

/// What the items of a call were answered, in their order.
pub(crate) enum Answers {
    Numbers(Vec<Result<Numbers, Error>>),
    Current(Vec<Result<Current, Error>>),
}

impl Caller {
    /// Calls until the run is over.
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
            if run.mode == Mode::Next {
                let key = first + run.keys.pick(&mut self.rng);
                let asked = [Asked { key, before: 0 }];
                let got = self.next(&asked[0]).await;
                now = Instant::now();
                let got = std::iter::once(got.map(Got::Numbers));
                self.checker.settle(&asked, got, begin, now, &mut tally)?;
            } else {
                let asked = self.choose(first);
                let answers = self.ask(&asked).await;
                now = Instant::now();
                let checker = &mut self.checker;
                match answers {
                    Answers::Numbers(all) => {
                        let got = all.into_iter().map(|got| got.map(Got::Numbers));
                        checker.settle(&asked, got, begin, now, &mut tally)?;
                    }
                    Answers::Current(all) => {
                        let got = all.into_iter().map(|got| got.map(Got::Current));
                        checker.settle(&asked, got, begin, now, &mut tally)?;
                    }
                }
            }
            self.checker.end(self.number, due, now, tally);
        }
        self.checker.leave(self.number);
        Ok(())
    }

    /// Keys of one call, all of the namespace whose first key this is.
    fn choose(&mut self, first: u32) -> Vec<Asked> {
        let mut asked = Vec::with_capacity(self.checker.run.batch as usize);
        self.checker.run.choose(first, &mut self.rng, &mut asked);
        asked
    }

    /// The next number or numbers of one key.
    async fn next(&self, asked: &Asked) -> Result<Numbers, Error> {
        let run = &self.checker.run;
        let (namespace, key) = (run.keys.namespace(asked.key), run.keys.key(asked.key));
        match &self.asker {
            Asker::Sdk(client) => client.next(namespace, key, run.count).await,
            Asker::Unary(plain) => plain.next(namespace, key, run.count).await,
        }
    }

    async fn ask(&self, asked: &[Asked]) -> Answers {
        let run = &self.checker.run;
        let namespace = run.keys.namespace(asked[0].key);
        let keys = asked.iter().map(|asked| asked.key);
        match &self.asker {
            Asker::Sdk(client) => self.ask_sdk(client, namespace, keys).await,
            Asker::Unary(plain) => {
                let keys = run.keys.columns(keys);
                plain.ask(run.mode, namespace, keys, run.count).await
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

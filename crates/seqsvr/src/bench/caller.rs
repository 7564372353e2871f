//! One caller: a call after the other, each verified and measured.

use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use seqsvr_check::{Answer, Call, Kind, Outcome, Recorder};
use seqsvr_client::{Client, Current, CurrentKind, Error, Key, NextItem, Numbers};
use tokio::time::Instant;

use super::figures::Figures;
use super::frames::Frames;
use super::keys::Keys;
use super::pace::Pace;
use super::plain::Plain;
use super::verify::{Range, Verifier, Wrong};
use crate::cli::Mode;

/// What all callers of a run share.
pub(crate) struct Run {
    pub(crate) mode: Mode,
    /// Items of a call.
    pub(crate) batch: u32,
    /// Numbers an item takes.
    pub(crate) count: u32,
    pub(crate) keys: Keys,
    pub(crate) pace: Pace,
    pub(crate) verifier: Verifier,
    /// What was received wrongly, in words; the first few.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// Stamps of a history count from here.
    pub(crate) origin: Instant,
}

/// Most wrong ranges put in words.
const WRONG_MAX: usize = 10;

/// How a caller asks.
#[derive(Clone)]
pub(crate) enum Asker {
    /// As programs that use this project's client do: what many callers ask is merged.
    Sdk(Client),
    /// As any gRPC client can: each call is one request.
    Unary(Plain),
    /// Each call is one frame of a Pipe.
    Frames(Arc<Frames>),
}

/// One caller.
pub(crate) struct Caller {
    pub(crate) run: Arc<Run>,
    pub(crate) asker: Asker,
    pub(crate) figures: Arc<Vec<Mutex<Figures>>>,
    /// Which one it is.
    pub(crate) number: usize,
    pub(crate) rng: SmallRng,
    pub(crate) recorder: Option<Recorder>,
}

/// An item of a call: its key, and the greatest number received of it when the call began.
struct Asked {
    key: u32,
    before: u64,
}

/// What a call came to.
#[derive(Default)]
struct Tally {
    numbers: u64,
    failures: Vec<Error>,
}

/// What an item was answered.
#[derive(Clone, Copy)]
enum Got {
    Numbers(Numbers),
    Current(Current),
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
        let mut now = Instant::now();
        while let Some(due) = self.run.pace.turn(now).await {
            let mut tally = Tally::default();
            // A history wants to know exactly; otherwise one reading of the clock a call is enough.
            let begin = match self.recorder {
                Some(_) => Instant::now(),
                None => due,
            };
            self.run.verifier.begin(self.number);
            let first = self.run.keys.pick_namespace(&mut self.rng);
            if self.run.mode == Mode::Next {
                let asked = [self.begin(first)];
                let got = self.next(&asked[0]).await;
                now = Instant::now();
                let got = std::iter::once(&got).map(numbers);
                self.settle(&asked, got, begin, now, &mut tally)?;
            } else {
                let asked = self.choose(first);
                let answers = self.ask(&asked).await;
                now = Instant::now();
                let keys = asked.iter().map(|asked| asked.key);
                self.run.verifier.fetch(keys);
                match &answers {
                    Answers::Numbers(all) => {
                        let got = all.iter().map(numbers);
                        self.settle(&asked, got, begin, now, &mut tally)?;
                    }
                    Answers::Current(all) => {
                        let got = all.iter().map(|got| got.as_ref().map(|c| Got::Current(*c)));
                        self.settle(&asked, got, begin, now, &mut tally)?;
                    }
                }
            }
            self.run.verifier.end(self.number);
            let mut figures = self.figures[self.number % self.figures.len()].lock();
            match tally.failures.is_empty() {
                true => figures.answered(now.saturating_duration_since(due), tally.numbers),
                false => figures.numbers += tally.numbers,
            }
            let failures = tally.failures.into_iter();
            failures.for_each(|error| figures.failed(&error));
        }
        Ok(())
    }

    /// Begins to ask for a key of the namespace whose first key this is.
    fn begin(&mut self, first: u32) -> Asked {
        let key = first + self.run.keys.pick(&mut self.rng);
        let before = self.run.verifier.greatest(key);
        Asked { key, before }
    }

    /// Keys of one call, all of the namespace whose first key this is.
    fn choose(&mut self, first: u32) -> Vec<Asked> {
        let (run, rng) = (&self.run, &mut self.rng);
        let asked = (0..run.batch).map(|_| Asked {
            key: first + run.keys.pick(rng),
            before: 0,
        });
        let mut asked: Vec<Asked> = asked.collect();
        run.verifier.fetch(asked.iter().map(|asked| asked.key));
        for asked in &mut asked {
            asked.before = run.verifier.greatest(asked.key);
        }
        asked
    }

    /// The next number or numbers of one key.
    async fn next(&self, asked: &Asked) -> Result<Numbers, Error> {
        let Caller { run, asker, .. } = self;
        let (namespace, key) = (run.keys.namespace(asked.key), run.keys.key(asked.key));
        match asker {
            Asker::Sdk(client) => client.next(namespace, key, run.count).await,
            Asker::Unary(plain) => plain.next(namespace, key, run.count).await,
            Asker::Frames(frames) => {
                let mut all = frames.next_many(namespace, vec![key], run.count).await;
                all.remove(0)
            }
        }
    }

    async fn ask(&self, asked: &[Asked]) -> Answers {
        let run = &self.run;
        let namespace = run.keys.namespace(asked[0].key);
        let keys = asked.iter().map(|asked| run.keys.key(asked.key));
        match &self.asker {
            Asker::Sdk(client) => self.ask_sdk(client, namespace, keys).await,
            Asker::Unary(plain) => {
                plain
                    .ask(run.mode, namespace, keys.collect(), run.count)
                    .await
            }
            Asker::Frames(frames) => {
                Answers::Numbers(frames.next_many(namespace, keys.collect(), run.count).await)
            }
        }
    }

    async fn ask_sdk(
        &self,
        client: &Client,
        namespace: &str,
        keys: impl ExactSizeIterator<Item = Key>,
    ) -> Answers {
        match self.run.mode {
            Mode::Next | Mode::NextMany | Mode::Pipe => {
                let item = |key| NextItem {
                    count: self.run.count,
                    ..NextItem::new(key)
                };
                let items: Vec<NextItem> = keys.map(item).collect();
                Answers::Numbers(client.next_many(namespace, &items).await)
            }
            Mode::Current => {
                let keys: Vec<Key> = keys.collect();
                Answers::Current(match keys.as_slice() {
                    [one] => vec![client.current(namespace, one.clone()).await],
                    all => client.current_many(namespace, all).await,
                })
            }
        }
    }

    /// Verifies what the items of a call were answered, records it, and adds it up.
    fn settle<'e>(
        &mut self,
        asked: &[Asked],
        got: impl Iterator<Item = Result<Got, &'e Error>>,
        begin: Instant,
        end: Instant,
        tally: &mut Tally,
    ) -> Result<(), seqsvr_check::Error> {
        let since = |at: Instant| at.saturating_duration_since(self.run.origin).as_nanos() as u64;
        for (asked, got) in asked.iter().zip(got) {
            match got {
                Ok(got) => tally.numbers += self.verify(asked, &got),
                Err(error) => tally.failures.push(error.clone()),
            }
            let Some(recorder) = &mut self.recorder else {
                continue;
            };
            recorder.record(&Call {
                sequence: self.run.keys.sequence(asked.key),
                begin: since(begin),
                outcome: outcome(got, self.run.mode, since(end)),
            })?;
        }
        Ok(())
    }

    /// Numbers received; what is wrong with them ends the run.
    #[inline]
    fn verify(&self, asked: &Asked, got: &Got) -> u64 {
        let range = match got {
            Got::Numbers(n) => Range {
                first: n.first,
                last: n.last,
                stride: u64::from(n.stride),
            },
            Got::Current(c) => Range {
                first: c.value,
                last: c.value,
                stride: 1,
            },
        };
        let Asked { key, before } = *asked;
        let verdict = match got {
            Got::Numbers(_) => self.run.verifier.take(key, before, range),
            // What was received before the call began was given out.
            Got::Current(c) if c.value < before => Err(Wrong::Order { range, before }),
            Got::Current(_) => Ok(()),
        };
        if let Err(wrong) = verdict {
            self.wrong(key, &wrong);
        }
        match range.last - range.first {
            0 => 1,
            span => span / range.stride.max(1) + 1,
        }
    }

    /// Ends the run.
    #[cold]
    fn wrong(&self, key: u32, wrong: &Wrong) {
        let run = &self.run;
        run.pace.stop();
        let mut words = run.wrong.lock();
        if words.len() < WRONG_MAX {
            let (namespace, key) = (run.keys.namespace(key), run.keys.key(key));
            words.push(format!("{namespace}/{key}: {wrong}"));
        }
    }
}

fn numbers(got: &Result<Numbers, Error>) -> Result<Got, &Error> {
    got.as_ref().map(|numbers| Got::Numbers(*numbers))
}

fn outcome(got: Result<Got, &Error>, mode: Mode, end: u64) -> Outcome {
    let (epoch, answer) = match got {
        Ok(Got::Numbers(n)) => {
            let answer = Answer::Next {
                first: n.first,
                last: n.last,
                stride: NonZeroU64::new(u64::from(n.stride)).unwrap_or(NonZeroU64::MIN),
            };
            (n.epoch, answer)
        }
        Ok(Got::Current(c)) => {
            let answer = match c.kind {
                CurrentKind::Exact => Answer::Exact(c.value),
                CurrentKind::Never => Answer::Never,
                CurrentKind::AtMost => Answer::AtMost(c.value),
            };
            (c.epoch, answer)
        }
        Err(_) => {
            let kind = match mode {
                Mode::Next | Mode::NextMany | Mode::Pipe => Kind::Next,
                Mode::Current => Kind::Current,
            };
            return Outcome::Error { end, kind };
        }
    };
    Outcome::Ok {
        end,
        epoch: Some(epoch),
        answer,
    }
}

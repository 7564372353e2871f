//! One caller: a call after the other, each verified and measured.

use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use seqsvr_check::{Answer, Call, Kind, Outcome, Recorder};
use seqsvr_client::{Client, Current, CurrentKind, Error, NextItem, Numbers};
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
#[derive(Clone, Debug)]
pub(crate) enum Got {
    Numbers(Numbers),
    Current(Current),
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
            if self.run.mode == Mode::Next
                && let Asker::Sdk(client) = &self.asker
            {
                let client = client.clone();
                let first = self.run.keys.pick_namespace(&mut self.rng);
                let asked = self.begin(first);
                let got = self.next(&client, &asked).await;
                now = Instant::now();
                self.settle(&asked, &got, begin, now, &mut tally)?;
            } else {
                let asked = self.choose();
                let got = self.ask(&asked).await;
                now = Instant::now();
                let keys = asked.iter().map(|asked| asked.key);
                self.run.verifier.fetch(keys);
                for (asked, got) in asked.iter().zip(&got) {
                    self.settle(asked, got, begin, now, &mut tally)?;
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

    /// Keys of one call, all of one namespace.
    fn choose(&mut self) -> Vec<Asked> {
        let (run, rng) = (&self.run, &mut self.rng);
        let first = run.keys.pick_namespace(rng);
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

    async fn next(&self, client: &Client, asked: &Asked) -> Result<Got, Error> {
        let run = &self.run;
        let (namespace, key) = (run.keys.namespace(asked.key), run.keys.key(asked.key));
        let numbers = client.next(namespace, key, run.count).await;
        numbers.map(Got::Numbers)
    }

    async fn ask(&self, asked: &[Asked]) -> Vec<Result<Got, Error>> {
        let run = &self.run;
        let namespace = run.keys.namespace(asked[0].key);
        let keys = || asked.iter().map(|asked| run.keys.key(asked.key)).collect();
        match &self.asker {
            Asker::Sdk(client) => self.ask_sdk(client, namespace, asked).await,
            Asker::Unary(plain) => plain.ask(run.mode, namespace, keys(), run.count).await,
            Asker::Frames(frames) => {
                let all = frames.next_many(namespace, keys(), run.count).await;
                all.into_iter().map(|n| n.map(Got::Numbers)).collect()
            }
        }
    }

    async fn ask_sdk(
        &self,
        client: &Client,
        namespace: &str,
        asked: &[Asked],
    ) -> Vec<Result<Got, Error>> {
        let run = &self.run;
        let key = |asked: &Asked| run.keys.key(asked.key);
        match (run.mode, asked) {
            (Mode::Next | Mode::NextMany | Mode::Pipe, _) => {
                let item = |asked| NextItem {
                    count: run.count,
                    ..NextItem::new(key(asked))
                };
                let items: Vec<NextItem> = asked.iter().map(item).collect();
                let all = client.next_many(namespace, &items).await;
                all.into_iter().map(|n| n.map(Got::Numbers)).collect()
            }
            (Mode::Current, [one]) => {
                let current = client.current(namespace, key(one)).await;
                vec![current.map(Got::Current)]
            }
            (Mode::Current, _) => {
                let keys: Vec<_> = asked.iter().map(key).collect();
                let all = client.current_many(namespace, &keys).await;
                all.into_iter().map(|c| c.map(Got::Current)).collect()
            }
        }
    }

    /// Verifies what an item was answered, records it, and adds it up.
    fn settle(
        &mut self,
        asked: &Asked,
        got: &Result<Got, Error>,
        begin: Instant,
        end: Instant,
        tally: &mut Tally,
    ) -> Result<(), seqsvr_check::Error> {
        match got {
            Ok(got) => tally.numbers += self.verify(asked, got),
            Err(error) => tally.failures.push(error.clone()),
        }
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        let since = |at: Instant| at.saturating_duration_since(self.run.origin).as_nanos() as u64;
        recorder.record(&Call {
            sequence: self.run.keys.sequence(asked.key),
            begin: since(begin),
            outcome: outcome(got, self.run.mode, since(end)),
        })
    }

    /// Numbers received; what is wrong with them ends the run.
    fn verify(&self, asked: &Asked, got: &Got) -> u64 {
        let run = &self.run;
        let verdict = match got {
            Got::Numbers(n) => {
                let range = Range {
                    first: n.first,
                    last: n.last,
                    stride: u64::from(n.stride),
                };
                run.verifier.take(asked.key, asked.before, range)
            }
            // What was received before the call began was given out.
            Got::Current(c) if c.value < asked.before => Err(Wrong::Order {
                range: Range {
                    first: c.value,
                    last: c.value,
                    stride: 1,
                },
                before: asked.before,
            }),
            Got::Current(_) => Ok(()),
        };
        if let Err(wrong) = verdict {
            run.pace.stop();
            let mut words = run.wrong.lock();
            if words.len() < WRONG_MAX {
                let key = run.keys.key(asked.key);
                words.push(format!("{}/{key}: {wrong}", run.keys.namespace(asked.key)));
            }
        }
        match got {
            Got::Numbers(n) => (n.last - n.first) / u64::from(n.stride.max(1)) + 1,
            Got::Current(_) => 1,
        }
    }
}

fn outcome(got: &Result<Got, Error>, mode: Mode, end: u64) -> Outcome {
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

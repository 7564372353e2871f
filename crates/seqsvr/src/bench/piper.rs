//! The calls of one connection, each one frame of one Pipe, like a program that merges its calls
//! itself.
//!
//! One task draws keys, writes frames and reads answers for all callers of the connection, so that
//! no task switch comes between an answer and the next frame. A Pipe that ends, or that its server
//! closes, is opened again until the run is over.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use rand::rngs::SmallRng;
use seqsvr_client::Error;
use seqsvr_proto::v1::{NextManyResponse, PipeRequest, PipeResponse, pipe_request, pipe_response};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::checker::{Asked, Checker, Got, Tally};
use super::plain::{Plain, item_error, next_many, range_at, status_error};

/// Pause between two attempts to open a Pipe.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after the deadline of a call at which the Pipe is broken, and interval of that check.
const GRACE: Duration = Duration::from_secs(1);

/// The callers of one connection.
pub(crate) struct Piper {
    checker: Checker,
    plain: Plain,
    rng: SmallRng,
    /// Index of the first caller; the others follow.
    first: usize,
    calls: Vec<Call>,
    in_flight: usize,
    turns: FuturesUnordered<Turn>,
}

/// Call of one caller.
struct Call {
    due: Instant,
    begin: Instant,
    asked: Asked,
    /// Items that are not answered yet; 0: the call is not in flight.
    left: usize,
    /// Whether each item was answered; empty: none or all were.
    done: Vec<bool>,
    tally: Tally,
}

/// Future of a caller's next due time; None: the run is over.
type Turn = BoxFuture<'static, (usize, Option<Instant>)>;

/// Why a Pipe ended.
enum Ended {
    /// The run is over.
    Over,
    /// Its server closed it after it had answered all calls.
    Closed,
    /// It broke with calls in flight.
    Broken(Status),
}

impl Piper {
    /// Creates a worker for `callers` callers, whose first index is `first`.
    pub(crate) fn new(
        checker: Checker,
        plain: Plain,
        rng: SmallRng,
        first: usize,
        callers: usize,
    ) -> Piper {
        let now = Instant::now();
        let call = || Call {
            due: now,
            begin: now,
            asked: Asked::default(),
            left: 0,
            done: Vec::new(),
            tally: Tally::default(),
        };
        Piper {
            checker,
            plain,
            rng,
            first,
            calls: std::iter::repeat_with(call).take(callers).collect(),
            in_flight: 0,
            turns: FuturesUnordered::new(),
        }
    }

    /// Makes calls until the run is over.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) async fn run(mut self) -> Result<(), seqsvr_check::Error> {
        let now = Instant::now();
        for at in 0..self.calls.len() {
            self.turns.push(self.turn(at, now));
        }
        loop {
            let (sender, requests) = mpsc::channel(self.calls.len().max(1));
            let opened = self.plain.open_pipe(ReceiverStream::new(requests)).await;
            let ended = match opened {
                Ok(opened) => self.drive(&sender, opened).await?,
                Err(status) => self.unopened(status).await,
            };
            match ended {
                Ended::Over => return Ok(()),
                // The server waits for its calls to end before it shuts down. A new Pipe at once
                // would delay it.
                Ended::Closed => sleep(PAUSE).await,
                Ended::Broken(status) => {
                    self.fail(&status)?;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn turn(&self, at: usize, now: Instant) -> Turn {
        let run = self.checker.run.clone();
        async move { (at, run.pace.turn(now).await) }.boxed()
    }

    /// Begins the next due call, which fails because the Pipe could not be opened.
    async fn unopened(&mut self, status: Status) -> Ended {
        while let Some((at, due)) = self.turns.next().await {
            if let Some(due) = due {
                self.begin(at, due);
                return Ended::Broken(status);
            }
            self.checker.leave(self.first + at);
        }
        Ended::Over
    }

    /// Sends frames and reads answers until the Pipe ends.
    async fn drive(
        &mut self,
        sender: &mpsc::Sender<PipeRequest>,
        mut answers: Streaming<PipeResponse>,
    ) -> Result<Ended, seqsvr_check::Error> {
        let mut closing = false;
        let mut ticks = interval(GRACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.in_flight == 0 && (closing || self.turns.is_empty()) {
                return Ok(if closing { Ended::Closed } else { Ended::Over });
            }
            tokio::select! {
                biased;
                answer = answers.message(), if self.in_flight > 0 => match answer {
                    Ok(Some(answer)) => {
                        closing |= answer.closing;
                        if let Some(at) = self.answered(answer)? {
                            self.go_on(at, closing, sender);
                        }
                    }
                    Ok(None) => {
                        let status = Status::unavailable("the AllocSvr ended the Pipe");
                        return Ok(Ended::Broken(status));
                    }
                    Err(status) => return Ok(Ended::Broken(status)),
                },
                Some((at, due)) = self.turns.next(), if !closing => match due {
                    Some(due) => self.send(at, due, sender),
                    None => self.checker.leave(self.first + at),
                },
                _ = ticks.tick() => {
                    let longest = self.plain.timeout + GRACE;
                    let mut calls = self.calls.iter().filter(|call| call.left > 0);
                    if calls.any(|call| call.begin.elapsed() > longest) {
                        let text = format!("a frame was not answered for {longest:?}");
                        return Ok(Ended::Broken(Status::deadline_exceeded(text)));
                    }
                }
            }
        }
    }

    /// Schedules a caller's next call, or sends it at once if it is due.
    fn go_on(&mut self, at: usize, closing: bool, sender: &mpsc::Sender<PipeRequest>) {
        let mut turn = self.turn(at, Instant::now());
        match (&mut turn).now_or_never() {
            Some((at, Some(due))) if !closing => self.send(at, due, sender),
            Some((at, None)) => self.checker.leave(self.first + at),
            // The Pipe closes: the call stays due and is sent on the next Pipe.
            Some((at, Some(due))) => {
                let due = std::future::ready((at, Some(due)));
                self.turns.push(due.boxed());
            }
            None => self.turns.push(turn),
        }
    }

    fn begin(&mut self, at: usize, due: Instant) {
        let run = &self.checker.run;
        let call = &mut self.calls[at];
        call.due = due;
        call.begin = self.checker.begin(self.first + at, due);
        let first = run.keys.pick_namespace(&mut self.rng);
        run.choose(first, &mut self.rng, &mut call.asked);
        call.left = call.asked.keys.len();
        self.in_flight += 1;
    }

    fn send(&mut self, at: usize, due: Instant, sender: &mpsc::Sender<PipeRequest>) {
        self.begin(at, due);
        let (run, keys) = (&self.checker.run, &self.calls[at].asked.keys);
        let namespace = run.keys.namespace(keys[0]);
        let keys = run.keys.columns(keys.iter().copied());
        let request = PipeRequest {
            id: at as u64,
            timeout_ms: u32::try_from(self.plain.timeout.as_millis()).unwrap_or(u32::MAX),
            ask: Some(pipe_request::Ask::Next(next_many(
                namespace, keys, run.count,
            ))),
        };
        // The channel has room for all callers. A call that cannot be sent fails with its Pipe.
        let _ = sender.try_send(request);
    }

    /// Takes the answers of some items. Returns the caller if its call is complete.
    fn answered(&mut self, answer: PipeResponse) -> Result<Option<usize>, seqsvr_check::Error> {
        let at = answer.id as usize;
        let Some(call) = self.calls.get_mut(at).filter(|call| call.left > 0) else {
            return Ok(None);
        };
        let now = Instant::now();
        let run = &self.checker.run;
        let part;
        let asked = match answer.items.is_empty() {
            true => &call.asked,
            false => {
                let all = call.asked.keys.len();
                call.done.resize(all, false);
                let items = answer.items.iter().map(|i| *i as usize);
                let items = items.filter(|i| *i < all);
                part = call.asked.only(items.clone());
                items.for_each(|i| call.done[i] = true);
                &part
            }
        };
        let Some(any) = asked.keys.first() else {
            return Ok(None);
        };
        let stride = self.plain.stride(run.keys.namespace(*any));
        let tally = &mut call.tally;
        match &answer.answer {
            Some(pipe_response::Answer::Next(next)) => {
                let got = got(next, asked.keys.len(), run.count, stride);
                self.checker.settle(asked, got, call.begin, now, tally)?;
            }
            Some(pipe_response::Answer::Refused(why)) => {
                let got = asked.keys.iter().map(|_| Err(item_error(why)));
                self.checker.settle(asked, got, call.begin, now, tally)?;
            }
            Some(pipe_response::Answer::Current(_)) | None => return Ok(None),
        }
        call.left = call.left.saturating_sub(asked.keys.len());
        Ok((call.left == 0).then(|| {
            self.end(at, now);
            at
        }))
    }

    /// Ends a call that is complete.
    fn end(&mut self, at: usize, now: Instant) {
        let call = &mut self.calls[at];
        self.in_flight -= 1;
        call.done.clear();
        let tally = std::mem::take(&mut call.tally);
        self.checker.end(self.first + at, call.due, now, tally);
    }

    /// Fails every call in flight with this status.
    fn fail(&mut self, status: &Status) -> Result<(), seqsvr_check::Error> {
        let now = Instant::now();
        for at in 0..self.calls.len() {
            let call = &mut self.calls[at];
            if call.left > 0 {
                call.done.resize(call.asked.keys.len(), false);
                let left = (0..).zip(&call.done).filter(|(_, done)| !**done);
                let left = call.asked.only(left.map(|(i, _)| i));
                let got = left.keys.iter().map(|_| Err(status_error(status)));
                let tally = &mut call.tally;
                self.checker.settle(&left, got, call.begin, now, tally)?;
                call.left = 0;
                self.end(at, now);
                self.turns.push(self.turn(at, now));
            }
        }
        Ok(())
    }
}

/// Returns the answers to the items, in their order.
fn got(
    next: &NextManyResponse,
    items: usize,
    count: u32,
    stride: u32,
) -> impl Iterator<Item = Result<Got, Error>> {
    let mut errors = next.errors.iter().peekable();
    (0..items).map(
        move |i| match errors.next_if(|error| error.index as usize == i) {
            Some(error) => Err(item_error(error)),
            None => range_at(next, i, count, stride).map(Got::Numbers),
        },
    )
}

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
use seqsvr_proto::v1::{PipeRequest, PipeResponse, pipe_request, pipe_response};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::direct_client::{
    DirectClient, item_error, next_many_request, read_numbers, status_error,
};
use crate::answers::AnsweredItem;
use crate::call_recorder::{CallRecorder, CallTally};
use crate::run_state::CallItems;

/// Pause between two attempts to open a Pipe.
const REOPEN_PAUSE: Duration = Duration::from_millis(20);
/// Time after the deadline of a call at which the Pipe is broken, and interval of that check.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The callers of one connection.
pub(crate) struct PipeWorker {
    recorder: CallRecorder,
    client: DirectClient,
    rng: SmallRng,
    /// Index of the first caller; the others follow.
    first_caller: usize,
    calls: Vec<PipeCall>,
    in_flight: usize,
    due_calls: FuturesUnordered<DueFuture>,
}

/// Call of one caller.
struct PipeCall {
    due: Instant,
    begin: Instant,
    items: CallItems,
    /// Items that are not answered yet; 0: the call is not in flight.
    items_left: usize,
    /// Whether each item was answered; empty: none or all were.
    is_answered: Vec<bool>,
    tally: CallTally,
}

/// Future of a caller's next due time; None: the run is over.
type DueFuture = BoxFuture<'static, (usize, Option<Instant>)>;

/// Reason why a Pipe ended.
enum PipeEnd {
    /// The run is over.
    RunOver,
    /// Its server closed it after it had answered all calls.
    Closed,
    /// It broke with calls in flight.
    Broken(Status),
}

impl PipeWorker {
    /// Creates a worker for `callers` callers, whose first index is `first_caller`.
    pub(crate) fn new(
        recorder: CallRecorder,
        client: DirectClient,
        rng: SmallRng,
        first_caller: usize,
        callers: usize,
    ) -> PipeWorker {
        let now = Instant::now();
        let call = || PipeCall {
            due: now,
            begin: now,
            items: CallItems::default(),
            items_left: 0,
            is_answered: Vec::new(),
            tally: CallTally::default(),
        };
        PipeWorker {
            recorder,
            client,
            rng,
            first_caller,
            calls: std::iter::repeat_with(call).take(callers).collect(),
            in_flight: 0,
            due_calls: FuturesUnordered::new(),
        }
    }

    /// Makes calls until the run is over.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) async fn run(mut self) -> Result<(), seqsvr_check::Error> {
        let now = Instant::now();
        for caller in 0..self.calls.len() {
            self.due_calls.push(self.due_future(caller, now));
        }
        loop {
            let (sender, requests) = mpsc::channel(self.calls.len().max(1));
            let opened = self.client.open_pipe(ReceiverStream::new(requests)).await;
            let end = match opened {
                Ok(opened) => self.drive_pipe(&sender, opened).await?,
                Err(status) => self.fail_next_call(status).await,
            };
            match end {
                PipeEnd::RunOver => return Ok(()),
                // The server waits for its calls to end before it shuts down. A new Pipe at once
                // would delay it.
                PipeEnd::Closed => sleep(REOPEN_PAUSE).await,
                PipeEnd::Broken(status) => {
                    self.fail_calls(&status)?;
                    sleep(REOPEN_PAUSE).await;
                }
            }
        }
    }

    /// Returns the future of a caller's next due time; its last call ended at `now`.
    fn due_future(&self, caller: usize, now: Instant) -> DueFuture {
        let run = self.recorder.run.clone();
        async move { (caller, run.pacer.wait_until_due(now).await) }.boxed()
    }

    /// Begins the next due call, which fails because the Pipe could not be opened.
    async fn fail_next_call(&mut self, status: Status) -> PipeEnd {
        while let Some((caller, due)) = self.due_calls.next().await {
            if let Some(due) = due {
                self.begin_call(caller, due);
                return PipeEnd::Broken(status);
            }
            self.recorder.retire_caller(self.first_caller + caller);
        }
        PipeEnd::RunOver
    }

    /// Sends frames and reads answers until the Pipe ends.
    async fn drive_pipe(
        &mut self,
        sender: &mpsc::Sender<PipeRequest>,
        mut answers: Streaming<PipeResponse>,
    ) -> Result<PipeEnd, seqsvr_check::Error> {
        let mut closing = false;
        let mut ticks = interval(ANSWER_GRACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.in_flight == 0 && (closing || self.due_calls.is_empty()) {
                return Ok(if closing {
                    PipeEnd::Closed
                } else {
                    PipeEnd::RunOver
                });
            }
            tokio::select! {
                biased;
                answer = answers.message(), if self.in_flight > 0 => match answer {
                    Ok(Some(answer)) => {
                        closing |= answer.go_away;
                        if let Some(caller) = self.take_answers(answer)? {
                            self.schedule_next_call(caller, closing, sender);
                        }
                    }
                    Ok(None) => {
                        let status = Status::unavailable("the AllocSvr ended the Pipe");
                        return Ok(PipeEnd::Broken(status));
                    }
                    Err(status) => return Ok(PipeEnd::Broken(status)),
                },
                Some((caller, due)) = self.due_calls.next(), if !closing => match due {
                    Some(due) => self.send_call(caller, due, sender),
                    None => self.recorder.retire_caller(self.first_caller + caller),
                },
                _ = ticks.tick() => {
                    let timeout = self.client.timeout + ANSWER_GRACE;
                    let mut calls = self.calls.iter().filter(|call| call.items_left > 0);
                    if calls.any(|call| call.begin.elapsed() > timeout) {
                        let text = format!("a frame was not answered within {timeout:?}");
                        return Ok(PipeEnd::Broken(Status::deadline_exceeded(text)));
                    }
                }
            }
        }
    }

    /// Schedules a caller's next call, or sends it at once if it is due.
    fn schedule_next_call(
        &mut self,
        caller: usize,
        closing: bool,
        sender: &mpsc::Sender<PipeRequest>,
    ) {
        let mut due_future = self.due_future(caller, Instant::now());
        match (&mut due_future).now_or_never() {
            Some((caller, Some(due))) if !closing => self.send_call(caller, due, sender),
            Some((caller, None)) => self.recorder.retire_caller(self.first_caller + caller),
            // The Pipe closes: the call stays due and is sent on the next Pipe.
            Some((caller, Some(due))) => {
                let due = std::future::ready((caller, Some(due)));
                self.due_calls.push(due.boxed());
            }
            None => self.due_calls.push(due_future),
        }
    }

    /// Begins a caller's call and draws its keys.
    fn begin_call(&mut self, caller: usize, due: Instant) {
        let run = &self.recorder.run;
        let call = &mut self.calls[caller];
        call.due = due;
        call.begin = self.recorder.begin_call(self.first_caller + caller, due);
        let first_key = run.keys.draw_namespace(&mut self.rng);
        run.draw_items(first_key, &mut self.rng, &mut call.items);
        call.items_left = call.items.keys.len();
        self.in_flight += 1;
    }

    /// Begins a caller's call and sends its frame.
    fn send_call(&mut self, caller: usize, due: Instant, sender: &mpsc::Sender<PipeRequest>) {
        self.begin_call(caller, due);
        let (run, keys) = (&self.recorder.run, &self.calls[caller].items.keys);
        let namespace = run.keys.namespace_of(keys[0]);
        let keys = run.keys.request_columns(keys.iter().copied());
        let request = PipeRequest {
            id: caller as u64,
            timeout_ms: u32::try_from(self.client.timeout.as_millis()).unwrap_or(u32::MAX),
            operation: Some(pipe_request::Operation::Next(next_many_request(
                namespace, keys, run.count,
            ))),
        };
        // The channel has room for all callers. A call that cannot be sent fails with its Pipe.
        let _ = sender.try_send(request);
    }

    /// Takes the answers of some items. Returns the caller if its call is complete.
    fn take_answers(&mut self, answer: PipeResponse) -> Result<Option<usize>, seqsvr_check::Error> {
        let caller = answer.id as usize;
        let Some(call) = self
            .calls
            .get_mut(caller)
            .filter(|call| call.items_left > 0)
        else {
            return Ok(None);
        };
        let now = Instant::now();
        let run = &self.recorder.run;
        let partial_items;
        let items = match answer.items.is_empty() {
            true => &call.items,
            false => {
                let all = call.items.keys.len();
                call.is_answered.resize(all, false);
                let items = answer.items.iter().map(|i| *i as usize);
                let items = items.filter(|i| *i < all);
                partial_items = call.items.copy_items(items.clone());
                items.for_each(|i| call.is_answered[i] = true);
                &partial_items
            }
        };
        let Some(first_key) = items.keys.first() else {
            return Ok(None);
        };
        let stride = self.client.stride_of(run.keys.namespace_of(*first_key));
        let tally = &mut call.tally;
        match &answer.answer {
            Some(pipe_response::Answer::Next(next)) => {
                let answers = read_numbers(next, items.keys.len(), run.count, stride)
                    .map(|answer| answer.map(AnsweredItem::Numbers));
                self.recorder
                    .record_answers(items, answers, call.begin, now, tally)?;
            }
            Some(pipe_response::Answer::Rejected(why)) => {
                let answers = items.keys.iter().map(|_| Err(item_error(why)));
                self.recorder
                    .record_answers(items, answers, call.begin, now, tally)?;
            }
            Some(pipe_response::Answer::Current(_) | pipe_response::Answer::Ids(_)) | None => {
                return Ok(None);
            }
        }
        call.items_left = call.items_left.saturating_sub(items.keys.len());
        Ok((call.items_left == 0).then(|| {
            self.complete_call(caller, now);
            caller
        }))
    }

    /// Ends a call that is complete.
    fn complete_call(&mut self, caller: usize, now: Instant) {
        let call = &mut self.calls[caller];
        self.in_flight -= 1;
        call.is_answered.clear();
        let tally = std::mem::take(&mut call.tally);
        self.recorder
            .end_call(self.first_caller + caller, call.due, now, tally);
    }

    /// Fails every call in flight with this status.
    fn fail_calls(&mut self, status: &Status) -> Result<(), seqsvr_check::Error> {
        let now = Instant::now();
        for caller in 0..self.calls.len() {
            let call = &mut self.calls[caller];
            if call.items_left > 0 {
                call.is_answered.resize(call.items.keys.len(), false);
                let left = (0..).zip(&call.is_answered).filter(|(_, done)| !**done);
                let left = call.items.copy_items(left.map(|(i, _)| i));
                let answers = left.keys.iter().map(|_| Err(status_error(status)));
                let tally = &mut call.tally;
                self.recorder
                    .record_answers(&left, answers, call.begin, now, tally)?;
                call.items_left = 0;
                self.complete_call(caller, now);
                self.due_calls.push(self.due_future(caller, now));
            }
        }
        Ok(())
    }
}

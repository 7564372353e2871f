//! One pipe: the items submitted to it, its frames, and how each item ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;
use std::task::Waker;

use parking_lot::Mutex;
use seqsvr_proto::v1::{PipeResponse, pipe_response};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::attempt::attempt_deadline::AttemptDeadline;
use crate::attempt::attempt_error::AttemptError;
use crate::pipe::answers::{CallResults, ItemResult};
use crate::pipe::call_waiter::CallWaiter;
use crate::pipe::frame_builder::FrameBuilder;
use crate::pipe::frame_key::{FRAME_IDS_MAX, FrameItem, FrameKey, PipeOperation};
use crate::pipe::in_flight::InFlightFrame;
use crate::pipe::observer::PipeObserver;

/// Maximum items submitted to one pipe and not answered. Above it, callers wait for room.
const PIPE_ITEMS_MAX: usize = 128 * 1024;
/// Frames, from the newest on, that are searched for one with the same key. Above it, a new frame
/// begins.
const MERGE_CANDIDATES_MAX: usize = 16;

/// One pipe to one AllocSvr.
pub(crate) struct PipeConnection {
    pub(crate) address: String,
    /// Maximum items of a frame.
    frame_items_max: usize,
    pub(super) queue: Mutex<PipeQueue>,
    /// Notified when items ended, so that there may be room.
    room_freed: Notify,
    /// Notified when the pipe has work and its driver does not search for timed-out items.
    pub(super) driver_wakeup: Notify,
}

/// Items of a pipe, from their submission to their answer.
#[derive(Default)]
pub(super) struct PipeQueue {
    pub(super) unsent: VecDeque<FrameBuilder>,
    pub(super) in_flight: HashMap<u64, InFlightFrame>,
    pub(super) next_frame_id: u64,
    /// Keys and callers of the last sent frame: an estimate for the next one.
    pub(super) typical_size: (usize, usize),
    /// Items in `unsent` and in `in_flight`.
    item_count: usize,
    pub(super) writer_waker: Option<Waker>,
    pub(super) state: PipeState,
    /// The driver does not search for timed-out items until it is woken.
    driver_idle: bool,
}

/// State of a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PipeState {
    #[default]
    Open,
    /// Sends its frames and accepts no more items.
    Closing,
    /// Failed; has no items.
    Broken,
}

/// Reason why a pipe did not accept items.
pub(crate) enum SubmitError {
    /// The pipe is closing or broken: open another one.
    Closed,
    /// The pipe has too many items: wait for room.
    Full,
}

/// Result of a search for items that timed out.
pub(super) struct ScanResult {
    /// Some items timed out.
    pub(super) has_expired: bool,
    /// Items are left.
    pub(super) has_items: bool,
}

impl PipeQueue {
    /// Returns whether this many items may join. Any number may join an empty queue.
    fn has_room(&self, items: usize) -> bool {
        self.item_count == 0 || self.item_count + items <= PIPE_ITEMS_MAX
    }
}

impl PipeConnection {
    /// Creates an open pipe without items.
    pub(super) fn new(address: &str, frame_items_max: usize) -> PipeConnection {
        PipeConnection {
            address: address.to_owned(),
            frame_items_max,
            queue: Mutex::default(),
            room_freed: Notify::new(),
            driver_wakeup: Notify::new(),
        }
    }

    /// Returns whether the pipe accepts items.
    pub(crate) fn is_open(&self) -> bool {
        self.queue.lock().state == PipeState::Open
    }

    /// Accepts no more items; those in the pipe still end.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        if queue.state == PipeState::Open {
            queue.state = PipeState::Closing;
        }
        if let Some(writer) = queue.writer_waker.take() {
            writer.wake();
        }
        self.driver_wakeup.notify_one();
    }

    /// Adds one item; its answer comes through the returned receiver.
    #[inline]
    pub(crate) fn submit_single(
        &self,
        frame_key: &FrameKey<'_>,
        item: FrameItem<'_>,
        deadline: AttemptDeadline,
    ) -> Result<oneshot::Receiver<ItemResult>, SubmitError> {
        let (sender, receiver) = oneshot::channel();
        let waiter = CallWaiter::single(sender, deadline);
        let weight = u64::from(item.count);
        self.enqueue(frame_key, 1, weight, |frame| {
            frame.push_call(std::iter::once(item), weight, waiter);
        })?;
        Ok(receiver)
    }

    /// Adds the items of one call, at most as many as a frame holds; their answers come together.
    pub(crate) fn submit_batch<'p>(
        &self,
        frame_key: &FrameKey<'_>,
        weight: u64,
        frame_items: impl ExactSizeIterator<Item = FrameItem<'p>> + Clone,
        deadline: AttemptDeadline,
    ) -> Result<oneshot::Receiver<CallResults>, SubmitError> {
        let (sender, receiver) = oneshot::channel();
        let waiter = CallWaiter::batch(sender, frame_items.len(), deadline);
        self.enqueue(frame_key, frame_items.len(), weight, |frame| {
            frame.push_call(frame_items, weight, waiter);
        })?;
        Ok(receiver)
    }

    /// Adds a call for ids, at most as many as a frame holds; they come together. `least_id` is the
    /// least that they may be, if they rise.
    pub(crate) fn submit_ids(
        &self,
        frame_key: &FrameKey<'_>,
        count: usize,
        least_id: Option<u64>,
        deadline: AttemptDeadline,
    ) -> Result<oneshot::Receiver<CallResults>, SubmitError> {
        let (sender, receiver) = oneshot::channel();
        let waiter = CallWaiter::batch(sender, count, deadline);
        self.enqueue(frame_key, count, count as u64, |frame| {
            frame.push_ids(count, least_id, waiter);
        })?;
        Ok(receiver)
    }

    fn enqueue(
        &self,
        frame_key: &FrameKey<'_>,
        items: usize,
        weight: u64,
        push: impl FnOnce(&mut FrameBuilder),
    ) -> Result<(), SubmitError> {
        let items_max = match frame_key.operation {
            PipeOperation::Ids => FRAME_IDS_MAX,
            PipeOperation::Next | PipeOperation::Current => self.frame_items_max,
        };
        let mut queue = self.queue.lock();
        if queue.state != PipeState::Open {
            return Err(SubmitError::Closed);
        }
        if !queue.has_room(items) {
            return Err(SubmitError::Full);
        }
        queue.item_count += items;
        let (typical_items, typical_callers) = queue.typical_size;
        let newest = queue.unsent.iter_mut().rev().take(MERGE_CANDIDATES_MAX);
        let mut fitting =
            newest.filter(|frame| frame.may_join(frame_key, items, weight, items_max));
        match fitting.next() {
            Some(frame) => push(frame),
            None => {
                let mut frame =
                    FrameBuilder::new(frame_key, items.max(typical_items), typical_callers);
                push(&mut frame);
                queue.unsent.push_back(frame);
            }
        }
        if std::mem::take(&mut queue.driver_idle) {
            self.driver_wakeup.notify_one();
        }
        let writer = queue.writer_waker.take();
        drop(queue);
        if let Some(writer) = writer {
            writer.wake();
        }
        Ok(())
    }

    /// Waits for room for this many items, until `until` at most.
    pub(crate) async fn wait_for_room(&self, items: usize, until: Instant) {
        let freed = self.room_freed.notified();
        tokio::pin!(freed);
        freed.as_mut().enable();
        if self.queue.lock().has_room(items) {
            return;
        }
        let _ = timeout_at(until, freed).await;
    }

    /// Frees the room of items that ended.
    fn release_items(&self, queue: &mut PipeQueue, items: usize) {
        let was_full = queue.item_count >= PIPE_ITEMS_MAX / 2;
        queue.item_count -= items;
        if was_full {
            self.room_freed.notify_waiters();
        }
    }

    /// Fails the items that timed out.
    pub(super) fn fail_expired(&self) -> ScanResult {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        let mut has_expired = false;
        for waiter in queue.unsent.iter_mut().flat_map(|f| &mut f.waiters) {
            has_expired |= waiter.fail_expired(now, &self.address);
        }
        let mut abandoned = 0;
        queue.in_flight.retain(|_, flight| {
            has_expired |= flight.fail_expired(now, &self.address);
            let is_abandoned = flight.is_abandoned(now);
            if is_abandoned {
                abandoned += flight.unanswered_items();
            }
            !is_abandoned
        });
        self.release_items(&mut queue, abandoned);
        ScanResult {
            has_expired,
            has_items: queue.item_count > 0,
        }
    }

    /// Returns whether the pipe is closed and nothing is left to wait for.
    pub(super) fn is_done(&self) -> bool {
        let queue = self.queue.lock();
        queue.state != PipeState::Open && queue.item_count == 0
    }

    /// Makes each later submit wake the driver, if there are no items; returns whether it did.
    pub(super) fn try_idle(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.driver_idle = queue.item_count == 0;
        queue.driver_idle
    }

    /// Applies a response: attached routes first, then the answers of the frame's items.
    pub(super) fn handle_response<O: PipeObserver>(
        &self,
        response: PipeResponse,
        observer: &Weak<O>,
    ) {
        let PipeResponse {
            id,
            items,
            answer,
            go_away,
        } = response;
        if go_away {
            return self.close();
        }
        let flight = self.queue.lock().in_flight.remove(&id);
        let (Some(mut flight), Some(mut answer)) = (flight, answer) else {
            return;
        };
        let routes = match &mut answer {
            pipe_response::Answer::Next(next) => next.routes.take(),
            pipe_response::Answer::Current(current) => current.routes.take(),
            pipe_response::Answer::Rejected(_) | pipe_response::Answer::Ids(_) => None,
        };
        let unanswered = flight.unanswered_items();
        let observer = observer.upgrade();
        if let Some(observer) = &observer {
            observer.mark_responsive(&self.address);
        }
        let learned = match (routes, observer) {
            (Some(routes), Some(observer)) => observer.learn_routes(&self.address, &routes),
            _ => Ok(()),
        };
        let answered = match learned {
            Ok(()) => flight.deliver(&self.address, &items, answer),
            Err(failure) => {
                flight.fail_all(&failure);
                unanswered
            }
        };
        let mut queue = self.queue.lock();
        if flight.unanswered_items() > 0 {
            queue.in_flight.insert(id, flight);
        }
        self.release_items(&mut queue, answered);
    }

    /// Breaks the pipe: every item in it ends with this failure.
    pub(super) fn break_off(&self, failure: &AttemptError) {
        let (unsent, in_flight) = {
            let mut queue = self.queue.lock();
            queue.state = PipeState::Broken;
            let items = queue.item_count;
            self.release_items(&mut queue, items);
            let unsent = std::mem::take(&mut queue.unsent);
            (unsent, std::mem::take(&mut queue.in_flight))
        };
        for mut frame in unsent {
            frame.waiters.iter_mut().for_each(|w| w.fail_all(failure));
        }
        for mut flight in in_flight.into_values() {
            flight.fail_all(failure);
        }
        self.room_freed.notify_waiters();
    }
}

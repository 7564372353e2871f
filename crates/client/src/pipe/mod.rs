//! A Pipe: one stream each way to one AllocSvr, into which all calls of a client are merged.
//!
//! ```text
//! callers --submit--> PipeQueue (FrameBuilders) --FrameWriter--> HTTP/2
//!    ^                                                              |
//!    '---- CallWaiter <---- InFlightFrame, by id <---- driver <-----'
//! ```
//!
//! A frame takes what waits when the stream has room for one: with one call it is sent at once,
//! with thousands in flight it holds many. Nothing ever waits for a frame to fill.
//!
//! Invariants: each submitted item ends once, with its answer or a failure: when it is answered,
//! when it times out, or when the pipe breaks. A caller that goes away leaves its items in the
//! pipe, and their answers are discarded. A retry never repeats a number, so lost numbers are only
//! burned. Items submitted and not answered are at most [`PIPE_ITEMS_MAX`]; more callers wait for
//! room.

mod answers;
mod driver;
mod frame_builder;
mod in_flight;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

pub(crate) use answers::{CallResults, ItemResult, RawAnswer};
pub(crate) use frame_builder::{FRAME_ITEMS_MAX, FrameItem, FrameKey, PipeOperation};
pub(crate) use in_flight::AttemptDeadline;

use crate::call::attempt_error::AttemptError;
use crate::client::ClientCore;
use frame_builder::FrameBuilder;
use in_flight::{CallWaiter, InFlightFrame};

/// Maximum items submitted to one pipe and not answered. Above it, callers wait for room.
const PIPE_ITEMS_MAX: usize = 128 * 1024;
/// Frames, from the newest on, that are searched for one with the same key. Above it, a new frame
/// begins.
const MERGE_CANDIDATES_MAX: usize = 16;
/// Time between two searches for items that timed out.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Searches without calls after which the driver stops searching until the next call.
const IDLE_CHECKS_MAX: u32 = 200;

/// Pipes of one client, by address.
#[derive(Default)]
pub(crate) struct PipePool(RwLock<HashMap<String, Arc<PipeConnection>>>);

/// One pipe to one AllocSvr.
pub(crate) struct PipeConnection {
    pub(crate) address: String,
    /// Maximum items of a frame.
    frame_items_max: usize,
    queue: Mutex<PipeQueue>,
    /// Notified when items ended, so that there may be room.
    room_freed: Notify,
    /// Notified when the pipe has work and its driver does not search for timed-out items.
    driver_wakeup: Notify,
}

#[derive(Default)]
struct PipeQueue {
    unsent: VecDeque<FrameBuilder>,
    in_flight: HashMap<u64, InFlightFrame>,
    next_frame_id: u64,
    /// Items and callers of the last sent frame: an estimate for the next one.
    typical_size: (usize, usize),
    /// Items in `unsent` and in `in_flight`.
    item_count: usize,
    writer_waker: Option<Waker>,
    state: PipeState,
    /// The driver does not search for timed-out items until it is woken.
    driver_idle: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PipeState {
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

impl Drop for PipePool {
    fn drop(&mut self) {
        self.0.get_mut().values().for_each(|pipe| pipe.close());
    }
}

impl PipePool {
    /// Returns the pipe to an address; opens one if there is none that accepts items.
    pub(crate) fn get_or_open(
        &self,
        core: &Arc<ClientCore>,
        address: &str,
    ) -> Result<Arc<PipeConnection>, AttemptError> {
        if let Some(pipe) = self.0.read().get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let channel = core
            .channels
            .get(address)
            .map_err(|bad| AttemptError::unreachable(address, &bad.to_string()))?;
        let mut pipes = self.0.write();
        if let Some(pipe) = pipes.get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let pipe = Arc::new(PipeConnection {
            address: address.to_owned(),
            frame_items_max: core.frame_items_max.min(FRAME_ITEMS_MAX),
            queue: Mutex::default(),
            room_freed: Notify::new(),
            driver_wakeup: Notify::new(),
        });
        tokio::spawn(driver::run_driver(
            pipe.clone(),
            channel,
            Arc::downgrade(core),
        ));
        pipes.insert(address.to_owned(), pipe.clone());
        Ok(pipe)
    }

    /// Closes the pipes to addresses that `keep` rejects, and discards the broken ones.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.write().retain(|address, pipe| {
            let keep = keep(address);
            if !keep {
                pipe.close();
            }
            keep && pipe.is_open()
        });
    }
}

impl PipeQueue {
    /// Returns whether this many items may join. Any number may join an empty queue.
    fn has_room(&self, items: usize) -> bool {
        self.item_count == 0 || self.item_count + items <= PIPE_ITEMS_MAX
    }
}

impl PipeConnection {
    pub(crate) fn is_open(&self) -> bool {
        self.queue.lock().state == PipeState::Open
    }

    /// Accepts no more items; those in the pipe still end.
    fn close(&self) {
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
        let weight = u64::from(item.count);
        self.enqueue(frame_key, 1, weight, |frame| {
            frame.push_items(std::iter::once(item));
            frame.add_waiter(
                weight,
                CallWaiter::single(sender, deadline),
                deadline.expires_at,
            );
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
        let item_count = frame_items.len();
        self.enqueue(frame_key, item_count, weight, |frame| {
            frame.push_items(frame_items);
            frame.add_waiter(
                weight,
                CallWaiter::batch(sender, item_count, deadline),
                deadline.expires_at,
            );
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
            newest.filter(|frame| frame.may_join(frame_key, items, weight, self.frame_items_max));
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
}

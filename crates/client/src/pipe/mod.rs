//! A Pipe: one stream each way to one AllocSvr, into which all calls of a client are merged.
//!
//! ```text
//! callers --submit--> Queue (one Frame a kind of call) --Writer--> HTTP/2
//!    ^                                                               |
//!    '---- Waiter <---- Flight (frames sent, by id) <---- drive <----'
//! ```
//!
//! A frame takes what waits when the stream has room for one: with one call it is sent at once,
//! with thousands in flight it holds many. Nothing ever waits for a frame to fill.
//!
//! Invariants: each item submitted ends once, with its answer or a failure: when it is answered,
//! when its time is over, when the pipe breaks. A caller that goes away leaves its items in the
//! pipe, and their answers are discarded. A retry never repeats a number, so what was lost is only
//! burned. Items submitted and not answered are at most [`ITEMS_MAX`]; more callers wait for room.

mod answers;
mod drive;
mod flight;
mod frame;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

pub(crate) use answers::{Answers, Entry, Got};
pub(crate) use flight::Patience;
pub(crate) use frame::{Asks, FRAME_MAX, Lot, Parcel};

use crate::client::Inner;
use crate::failure::Failure;
use flight::{Flight, Waiter};
use frame::Frame;

/// Most items submitted to one pipe and not answered.
const ITEMS_MAX: usize = 128 * 1024;
/// How many frames, from the newest, are searched for one of the same kind.
const KINDS_LOOKED_AT: usize = 16;
/// How often the pipe looks for items whose time is over.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without calls after which a pipe looks no more until the next call.
const IDLE_TICKS: u32 = 200;

/// One client's pipes, by address.
#[derive(Default)]
pub(crate) struct Pipes(RwLock<HashMap<String, Arc<Pipe>>>);

/// One pipe.
pub(crate) struct Pipe {
    pub(crate) address: String,
    /// Most items of a frame.
    frame_max: usize,
    queue: Mutex<Queue>,
    /// Notified when there is room again.
    room: Notify,
    /// Notified when the pipe has work and its driver does not look at the time.
    work: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    flying: HashMap<u64, Flight>,
    next_id: u64,
    /// Items and callers of the last frame sent: an estimate for the next one.
    usual: (usize, usize),
    /// Items in `frames` and in `flying`.
    items: usize,
    writer: Option<Waker>,
    state: State,
    /// The driver does not look at the time.
    asleep: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Sends what it has and takes no more.
    Closing,
    /// Broken; has nothing.
    Dead,
}

/// The reason why a pipe did not take items.
pub(crate) enum Refused {
    /// The pipe is closing or broken: open another.
    Gone,
    /// The pipe has too many items: wait for room.
    Full,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.0.get_mut().values().for_each(|pipe| pipe.close());
    }
}

impl Pipes {
    /// Returns the pipe to an address; opens one if there is none that takes calls.
    pub(crate) fn get(&self, inner: &Arc<Inner>, address: &str) -> Result<Arc<Pipe>, Failure> {
        if let Some(pipe) = self.0.read().get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let channel = inner
            .channels
            .get(address)
            .map_err(|bad| Failure::unreachable(address, &bad.to_string()))?;
        let mut pipes = self.0.write();
        if let Some(pipe) = pipes.get(address).filter(|pipe| pipe.is_open()) {
            return Ok(pipe.clone());
        }
        let pipe = Arc::new(Pipe {
            address: address.to_owned(),
            frame_max: inner.items_max.min(FRAME_MAX),
            queue: Mutex::default(),
            room: Notify::new(),
            work: Notify::new(),
        });
        tokio::spawn(drive::run(pipe.clone(), channel, Arc::downgrade(inner)));
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

impl Queue {
    /// Returns whether so many items may join; any number may if there is none.
    fn has_room(&self, items: usize) -> bool {
        self.items == 0 || self.items + items <= ITEMS_MAX
    }
}

impl Pipe {
    pub(crate) fn is_open(&self) -> bool {
        self.queue.lock().state == State::Open
    }

    /// Lets the items that it has end, and takes no more.
    fn close(&self) {
        let mut queue = self.queue.lock();
        if queue.state == State::Open {
            queue.state = State::Closing;
        }
        if let Some(writer) = queue.writer.take() {
            writer.wake();
        }
        self.work.notify_one();
    }

    /// Adds one item; its answer comes through the returned receiver.
    #[inline]
    pub(crate) fn submit_one(
        &self,
        lot: &Lot<'_>,
        parcel: Parcel<'_>,
        patience: Patience,
    ) -> Result<oneshot::Receiver<Entry>, Refused> {
        let (sender, receiver) = oneshot::channel();
        let weight = u64::from(parcel.count);
        self.add(lot, 1, weight, |frame| {
            frame.extend(std::iter::once(parcel));
            frame.await_by(weight, Waiter::one(sender, patience), patience.until);
        })?;
        Ok(receiver)
    }

    /// Adds the items of one call, at most as many as a frame holds; their answers come together.
    pub(crate) fn submit_many<'p>(
        &self,
        lot: &Lot<'_>,
        weight: u64,
        parcels: impl ExactSizeIterator<Item = Parcel<'p>> + Clone,
        patience: Patience,
    ) -> Result<oneshot::Receiver<Answers>, Refused> {
        let (sender, receiver) = oneshot::channel();
        let n = parcels.len();
        self.add(lot, n, weight, |frame| {
            frame.extend(parcels);
            frame.await_by(weight, Waiter::many(sender, n, patience), patience.until);
        })?;
        Ok(receiver)
    }

    fn add(
        &self,
        lot: &Lot<'_>,
        items: usize,
        weight: u64,
        push: impl FnOnce(&mut Frame),
    ) -> Result<(), Refused> {
        let mut queue = self.queue.lock();
        if queue.state != State::Open {
            return Err(Refused::Gone);
        }
        if !queue.has_room(items) {
            return Err(Refused::Full);
        }
        queue.items += items;
        let usual = queue.usual;
        let newest = queue.frames.iter_mut().rev().take(KINDS_LOOKED_AT);
        let mut fitting = newest.filter(|frame| frame.takes(lot, items, weight, self.frame_max));
        match fitting.next() {
            Some(frame) => push(frame),
            None => {
                let mut frame = Frame::new(lot, items.max(usual.0), usual.1);
                push(&mut frame);
                queue.frames.push_back(frame);
            }
        }
        if std::mem::take(&mut queue.asleep) {
            self.work.notify_one();
        }
        let writer = queue.writer.take();
        drop(queue);
        if let Some(writer) = writer {
            writer.wake();
        }
        Ok(())
    }

    /// Waits for room for so many items, until that time at most.
    pub(crate) async fn room_by(&self, items: usize, until: Instant) {
        let room = self.room.notified();
        tokio::pin!(room);
        room.as_mut().enable();
        if self.queue.lock().has_room(items) {
            return;
        }
        let _ = timeout_at(until, room).await;
    }

    /// Notes that so many items ended.
    fn ended(&self, queue: &mut Queue, items: usize) {
        let was_full = queue.items >= ITEMS_MAX / 2;
        queue.items -= items;
        if was_full {
            self.room.notify_waiters();
        }
    }
}

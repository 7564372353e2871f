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
//! discarded. Items submitted and not answered are at most [`PIPE_ITEMS_MAX`]; more callers wait
//! for room.

mod answers;
mod call_waiter;
mod connection;
mod driver;
mod frame_builder;
mod frame_key;
mod in_flight;
mod observer;
mod pool;

pub(crate) use answers::{CallIds, CallResults, ItemResult, RawAnswer};
pub(crate) use connection::{PipeConnection, SubmitError};
pub(crate) use frame_key::{FRAME_IDS_MAX, FRAME_ITEMS_MAX, FrameItem, FrameKey, PipeOperation};
pub(crate) use observer::PipeObserver;
pub(crate) use pool::PipePool;

//! Atomics and mutex: std's, or loom's under `--cfg loom`, so that loom can play every schedule of
//! the protocols built on them.

#[cfg(not(loom))]
pub(super) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(loom)]
pub(super) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};

/// For hints, on which nothing rests: loom does not play them.
pub(super) use std::sync::atomic::AtomicBool;
pub(super) use std::sync::atomic::Ordering;

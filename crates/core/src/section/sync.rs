//! Atomics, mutex and once-cell: std's, or loom's under `--cfg loom`, so that loom can play every
//! schedule of the protocols built on them.

#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicU32, AtomicU64},
};

#[cfg(loom)]
pub(super) use self::modelled::OnceLock;
#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64},
};

pub(super) use std::sync::atomic::Ordering;

/// Locks; a panic elsewhere does not spread, because no holder leaves the data half changed.
pub(super) fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Once-cell for loom, which has none: std's with the synchronization it promises, made visible to
/// loom.
#[cfg(loom)]
mod modelled {
    use loom::sync::atomic::{AtomicBool, Ordering};

    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        ready: AtomicBool,
        writer: loom::sync::Mutex<()>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self {
                value: std::sync::OnceLock::new(),
                ready: AtomicBool::new(false),
                writer: loom::sync::Mutex::new(()),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.ready
                .load(Ordering::Acquire)
                .then(|| self.value.get())
                .flatten()
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            if let Some(value) = self.get() {
                return value;
            }
            let _writer = super::lock_ignoring_poison(&self.writer);
            let value = self.value.get_or_init(make);
            self.ready.store(true, Ordering::Release);
            value
        }
    }
}

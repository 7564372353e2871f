//! Threads of a runtime that run no other task.

use std::sync::mpsc;

use tokio::runtime::Runtime;

/// Threads that are blocked until this is dropped.
pub struct BlockedThreads {
    _release: Vec<mpsc::Sender<()>>,
}

impl BlockedThreads {
    /// Blocks all threads of a runtime, which has this number of them. Returns once they are
    /// blocked.
    pub fn block(runtime: &Runtime, threads: usize) -> BlockedThreads {
        let (begun, has_begun) = mpsc::channel();
        let mut release = Vec::new();
        for _ in 0..threads {
            let (give_back, taken) = mpsc::channel::<()>();
            let begun = begun.clone();
            runtime.spawn(async move {
                begun.send(()).unwrap();
                // An error: it is released.
                let _ = taken.recv();
            });
            has_begun.recv().unwrap();
            release.push(give_back);
        }
        BlockedThreads { _release: release }
    }
}

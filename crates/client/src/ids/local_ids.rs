//! Ids that this process makes itself, with workers of its own.
//!
//! Invariant: a forked child makes no id with a copied generator, and begins no call about its
//! worker. Schedule that breaks it: the child of a program with one thread continues the tasks of
//! its parent, and releases the worker at its own position, below what the parent has used. So a
//! check of the process precedes each id and each call, and what was waited for is checked again.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::family::{Family, FamilyLimits, FamilySpec};
use seqsvr_core::ids::{FamilyId, WorkerId};
use seqsvr_holder::{BootClock, FamilyHolder, HeldWorker, Shortage, StoreClock};
use seqsvr_ids::generator::Run;
use seqsvr_os::ProcessMark;
use seqsvr_proto::v1::Reason;
use tokio::time::Instant;
use tonic::Code;

use crate::call::context::CallContext;
use crate::error::Error;
use crate::ids::local_options::LocalOptions;
use crate::ids::worker_calls::{ClientWorkerCalls, other_process_error};

/// Longest wait for an id; a longer deadline of the client counts as this.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Most characters of the host in the default name of a holder.
const HOST_CHARS_MAX: usize = 100;

/// Ids of a family that this process makes itself:
/// [`FamilyHandle::local`](crate::FamilyHandle::local) starts it.
///
/// It holds a worker, renews its grant in the background, and replaces a worker that it loses. No
/// id needs a call to a server; without a store ids are made until the grant ends. With one worker
/// ids rise, unless an operator sets store time back and the family has lanes.
///
/// Clones share the workers. They are released when the last clone is dropped, if the runtime still
/// runs. A forked child gets only errors: it must start its own.
#[derive(Clone)]
pub struct LocalIds {
    holder: Arc<FamilyHolder>,
    process: ProcessMark,
    deadline: Duration,
}

impl LocalIds {
    /// Acquires the first worker.
    pub(super) async fn start(
        context: &CallContext,
        spec: &FamilySpec,
        options: LocalOptions,
    ) -> Result<LocalIds, Error> {
        let LocalOptions { mut holder, ticker } = options;
        let (least, most) = holder.workers.clone().into_inner();
        if least == 0 || most < least || (holder.claimed.is_some() && most > 1) {
            let text = format!(
                "workers must be 1 or more, and 1 if a worker is claimed, not {least} to {most}"
            );
            return Err(Error::invalid(text));
        }
        let system = |e: std::io::Error| {
            let text = format!("local ids need a thread and the report of forks: {e}");
            Error::new(Code::Internal, Reason::Unspecified, text)
        };
        let process = ProcessMark::new().map_err(system)?;
        let boot = match ticker {
            true => BootClock::start_ticker().map_err(system)?,
            false => BootClock::Exact,
        };
        if holder.name.is_empty() {
            holder.name = default_name();
        }
        // The first grant has its limits.
        let family = Family {
            id: FamilyId(0),
            spec: spec.clone(),
            limits: FamilyLimits::DEFAULT,
            version: 0,
        };
        let calls = Arc::new(ClientWorkerCalls::new(context, process));
        let local = LocalIds {
            holder: Arc::new(FamilyHolder::start(
                family,
                StoreClock::new(boot),
                calls,
                holder,
            )),
            process,
            deadline: context.deadline.min(WAIT_MAX),
        };
        // Waits for the first worker. This position remains unused.
        local.take_waiting(|_, _| ()).await?;
        Ok(local)
    }

    /// Takes an id, without waiting.
    ///
    /// # Errors
    /// All ids that may be made now are used up: [`Error::retry_after`] says how long to wait. Or
    /// no grant is left: the text says why, and for how long none was given. Or this is a forked
    /// child.
    #[inline]
    pub fn next(&self) -> Result<u64, Error> {
        self.check_process()?;
        self.holder
            .take(NonZeroU32::MIN, None, |worker, run| worker.id(run.first))
            .map_err(|shortage| self.to_error(shortage))
    }

    /// Takes an id, and waits for it until the deadline of the client.
    ///
    /// # Errors
    /// As [`LocalIds::next`], if there is none until then or only an operator can change that.
    pub async fn next_waiting(&self) -> Result<u64, Error> {
        self.check_process()?;
        let id = self.take_waiting(|worker, run| worker.id(run.first)).await;
        self.check_process()?;
        id
    }

    async fn take_waiting<T>(
        &self,
        consume: impl FnMut(&HeldWorker, Run) -> T,
    ) -> Result<T, Error> {
        let (one, deadline) = (NonZeroU32::MIN, Instant::now() + self.deadline);
        let taken = self.holder.take_waiting(one, None, deadline, consume);
        Ok(taken.await?)
    }

    /// Takes as many ids as the slice is long, without waiting. Those of one worker rise.
    ///
    /// # Errors
    /// As [`LocalIds::next`], if there are not enough. Those that were taken remain unused: the
    /// content of the slice means nothing.
    pub fn fill(&self, ids: &mut [u64]) -> Result<(), Error> {
        self.check_process()?;
        let mut rest = ids;
        let count = |rest: &[u64]| u32::try_from(rest.len()).unwrap_or(u32::MAX);
        while let Some(wanted) = NonZeroU32::new(count(rest)) {
            let taken = self.holder.take(wanted, None, |worker, run| {
                // At most as many as wanted.
                let taken = run.count as usize;
                worker.fill(run, &mut rest[..taken]);
                taken
            });
            let taken = taken.map_err(|shortage| self.to_error(shortage))?;
            rest = &mut rest[taken..];
        }
        Ok(())
    }

    /// Returns the workers that it holds at present, with the epoch of each, as `seqsvr id workers`
    /// lists them.
    pub fn workers(&self) -> Vec<(WorkerId, u64)> {
        let workers = self.holder.workers();
        let held = workers.iter().map(|held| (held.worker(), held.epoch()));
        held.map(|(worker, epoch)| (WorkerId(worker), epoch))
            .collect()
    }

    /// Releases the workers, and waits until the store knows, 3 s at most. The next holder
    /// continues at the first tick that was not used. No clone makes ids any more. In a forked
    /// child it does nothing.
    pub async fn close(&self) {
        if self.process.is_current() {
            self.holder.close().await;
        }
    }

    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(other_process_error(self.process).into()),
        }
    }

    #[cold]
    fn to_error(&self, shortage: Shortage) -> Error {
        self.holder.shortage_error(shortage).into()
    }
}

impl Drop for LocalIds {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The copied holder is never dropped: that would take locks which no thread of the
            // child may ever release, and stop the copied keeper.
            std::mem::forget(self.holder.clone());
        }
    }
}

fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.chars().filter(char::is_ascii_graphic);
    let host: String = host.take(HOST_CHARS_MAX).collect();
    format!("{host}.{}", std::process::id())
}

//! The workers of one family that this process holds, and how callers take ids of them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::family::Family;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::generator::{NoId, Run};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::floor::Floor;
use crate::held_worker::HeldWorker;
use crate::holder_state::{HolderOptions, HolderState};
use crate::keeper::Keeper;
use crate::shortage::Shortage;
use crate::store_clock::StoreClock;
use crate::worker_calls::WorkerCalls;

/// Looks again for a worker that is just being replaced, before the caller has to wait.
const REPLACED_RETRIES: u32 = 2_000;
/// Looks without a pause; later ones leave the processor to the keeper, which may be preempted.
const REPLACED_SPINS: u32 = 1_000;
const REPLACED_PAUSE: Duration = Duration::from_millis(1);

/// The workers of one family that this process holds.
///
/// When it is dropped, the workers are released in the background.
pub struct FamilyHolder {
    pub(crate) shared: Arc<HolderState>,
    stop: CancellationToken,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for FamilyHolder {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl FamilyHolder {
    /// Begins to hold workers of a family. Must be called in a tokio runtime, where
    /// the keeper runs.
    pub fn start(
        family: Family,
        clock: Arc<StoreClock>,
        calls: Arc<impl WorkerCalls>,
        options: HolderOptions,
    ) -> FamilyHolder {
        let shared = Arc::new(HolderState::new(family, clock));
        let stop = CancellationToken::new();
        let keeper = Keeper::new(shared.clone(), calls, options);
        let keeper = tokio::spawn(keeper.run(stop.clone()));
        FamilyHolder {
            shared,
            stop,
            keeper: Mutex::new(Some(keeper)),
        }
    }

    /// Returns the family.
    pub fn family(&self) -> &Family {
        &self.shared.family
    }

    /// Returns the workers that it holds at present.
    pub fn workers(&self) -> Arc<Vec<Arc<HeldWorker>>> {
        self.shared.workers.load_full()
    }

    /// Returns the time until the last grant of its workers ends.
    pub fn time_granted(&self) -> Duration {
        let workers = self.shared.workers.load();
        let until = workers.iter().map(|worker| worker.until()).max();
        self.time_until(until.unwrap_or(0))
    }

    /// Returns the time until the layout has no later tick; the whole time of the layout before the
    /// first worker.
    pub fn time_to_live(&self) -> Duration {
        self.time_until(self.shared.family.spec.end_tick())
    }

    fn time_until(&self, tick: u64) -> Duration {
        let left = tick.saturating_sub(self.shared.now_tick());
        self.shared.duration_of(left)
    }

    /// Takes up to `count` positions of one worker, whose ids are above `floor`, and passes them to
    /// `consume`.
    ///
    /// # Errors
    /// No position may be used now.
    #[inline]
    pub fn take<T>(
        &self,
        count: NonZeroU32,
        floor: Option<&Floor>,
        consume: impl FnOnce(&HeldWorker, Run) -> T,
    ) -> Result<T, Shortage> {
        let shared = &*self.shared;
        let now = shared.now_tick();
        let reach = now.saturating_add(shared.ahead_ticks.load(Ordering::Relaxed));
        for attempt in 0..REPLACED_RETRIES {
            let workers = shared.workers.load();
            let (mut least_wait, mut is_over, mut is_replaced) = (None, false, false);
            let mut is_short = workers.is_empty();
            for worker in workers.iter() {
                let begin = floor.map_or(now, |floor| floor.first_tick(worker).max(now));
                let taken = match begin > reach {
                    true => Err(NoId::Full {
                        wait_ticks: begin - reach,
                    }),
                    false => worker.generator.take(count, begin, reach - begin),
                };
                let wait_ticks = match taken {
                    Ok(run) if floor.is_none_or(|floor| floor.is_below(worker, run)) => {
                        return Ok(consume(worker, run));
                    }
                    // The floor is an id that was never made. What was taken remains unused.
                    Ok(_) => 1,
                    Err(NoId::Full { wait_ticks }) => {
                        is_short |= begin <= reach && shared.is_near(wait_ticks);
                        wait_ticks
                    }
                    Err(NoId::Limit) => {
                        // Store time was set back: the grant ends before these ticks until it is
                        // near them again.
                        let unused = worker.generator.unused();
                        let wait_ticks = unused.saturating_sub(reach);
                        is_short |= shared.is_near(wait_ticks);
                        match wait_ticks > 0 && unused < shared.family.spec.end_tick() {
                            true => wait_ticks,
                            false => continue,
                        }
                    }
                    Err(no_id) => {
                        is_over |= no_id == NoId::EndOfTime;
                        is_replaced |= no_id == NoId::Sealed;
                        continue;
                    }
                };
                least_wait =
                    Some(least_wait.map_or(wait_ticks, |least: u64| least.min(wait_ticks)));
            }
            if is_short {
                shared.demand.notify_one();
            }
            return Err(match least_wait {
                Some(ticks) => Shortage::Full {
                    wait: shared.duration_of(ticks),
                },
                // The next list has the worker that replaces it.
                None if is_replaced => {
                    match attempt < REPLACED_SPINS {
                        true => std::hint::spin_loop(),
                        false => std::thread::sleep(REPLACED_PAUSE),
                    }
                    continue;
                }
                None if is_over => Shortage::Ended,
                None => Shortage::NoGrant,
            });
        }
        Err(Shortage::NoGrant)
    }

    /// Takes as [`take`](FamilyHolder::take) does, and waits until `deadline` for the first one.
    ///
    /// # Errors
    /// There is none until then, or only an operator can change that.
    pub async fn take_waiting<T>(
        &self,
        count: NonZeroU32,
        floor: Option<&Floor>,
        deadline: Instant,
        mut consume: impl FnMut(&HeldWorker, Run) -> T,
    ) -> Result<T, RpcError> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.mark_unchanged();
            match self.take(count, floor, &mut consume) {
                Ok(taken) => return Ok(taken),
                Err(shortage) => self.wait(shortage, deadline, &mut changes).await?,
            }
        }
    }

    /// Waits until a take may succeed.
    async fn wait(
        &self,
        shortage: Shortage,
        deadline: Instant,
        changes: &mut watch::Receiver<()>,
    ) -> Result<(), RpcError> {
        match shortage {
            Shortage::Full { wait } if Instant::now() + wait < deadline => {
                // After a change there may be more already.
                let _ = timeout(wait, changes.changed()).await;
                return Ok(());
            }
            Shortage::NoGrant if timeout_at(deadline, changes.changed()).await.is_ok() => {
                let failure = self.shared.failure.lock();
                if failure.as_ref().is_none_or(|(f, _)| may_recover(f)) {
                    return Ok(());
                }
            }
            _ => {}
        }
        Err(self.shortage_error(shortage))
    }

    /// Returns the error of a call that does not wait.
    pub fn shortage_error(&self, shortage: Shortage) -> RpcError {
        let Family { spec, .. } = &self.shared.family;
        let name = &spec.name;
        match shortage {
            Shortage::Full { wait } => {
                let ahead = self.shared.ahead_ticks.load(Ordering::Relaxed);
                let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let text = match wait > self.shared.duration_of(ahead + 1) {
                    true => {
                        let now_ms = self.shared.clock.now_us() / 1_000;
                        format!(
                            "family {name:?} has no id until {}: earlier ones are ahead of store time, {}; retry then, or use another family",
                            format_utc_ms(now_ms.saturating_add(wait_ms)),
                            format_utc_ms(now_ms)
                        )
                    }
                    false => {
                        let (held, limits) = (self.workers().len(), &self.shared.family.limits);
                        let allowed = u64::from(limits.workers_per_holder);
                        let may_help = (allowed..spec.worker_count()).contains(&(held as u64));
                        let advice = match may_help {
                            true => format!(
                                ", or allow more workers with `seqsvr id alter {name} --workers-per-holder`"
                            ),
                            false => String::new(),
                        };
                        format!(
                            "family {name:?}: the {} ids a tick of each of its workers here ({held}) are used up for {wait:.1?}: request fewer, or later{advice}",
                            spec.capacity()
                        )
                    }
                };
                let wait_ms = u32::try_from(wait_ms).unwrap_or(u32::MAX);
                RpcError::new(Reason::TooFarAhead, text).with_retry_after_ms(wait_ms.max(1))
            }
            Shortage::NoGrant => match self.shared.failure.lock().clone() {
                Some((failure, _)) if !may_recover(&failure) => failure,
                Some((failure, since)) => {
                    let time = since.elapsed();
                    let text = format!(
                        "family {name:?} has no grant, and got none for {time:.1?}: {failure}"
                    );
                    RpcError {
                        message: text,
                        ..failure
                    }
                }
                None => {
                    let text = format!(
                        "family {name:?} has no grant: the request for one has no answer yet; retry, and check that a store leads with `seqsvr status`"
                    );
                    RpcError::new(Reason::Unreachable, text).with_retry_after_ms(100)
                }
            },
            Shortage::Ended => {
                let end_ms = spec.layout.end_ms(spec.scale);
                let text = format!(
                    "family {name:?} ended on {}: create a family with a later epoch or more bits of time",
                    format_utc_ms(end_ms)
                );
                RpcError::new(Reason::TimeExhausted, text)
            }
        }
    }

    /// Releases the workers, and waits until the store knows, a few seconds at most. Ids taken
    /// before stay unique; none is taken any more.
    pub async fn close(&self) {
        self.stop.cancel();
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            // It ends normally, or a bug ended it.
            let _ = keeper.await;
        }
    }
}

/// Returns whether time alone may end a failure.
fn may_recover(failure: &RpcError) -> bool {
    match failure.reason() {
        Reason::Unreachable | Reason::Overloaded | Reason::NotLeader | Reason::Unspecified => true,
        _ => failure.detail.retry_after_ms > 0,
    }
}

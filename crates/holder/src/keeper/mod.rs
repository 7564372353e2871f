//! The task that acquires, renews and releases the workers of one family.
//!
//! Invariants, each with the schedule that breaks it:
//!
//! - A holder that has sent a release makes no more ids in that epoch. Schedule: the answer to a
//!   release is lost, this process continues, and the next holder begins where the release said. So
//!   a generator is sealed before its release is sent.
//! - An acquisition begins at most one generator, also if its answer is delivered twice, late or
//!   for another worker. Schedule: a worker was used up to tick 110, released, and given to another
//!   process; the old answer [100, 200) begins a fresh generator at 100. So an answer counts for
//!   the acquisition that waits for it, and never at an epoch that this process has used.
//! - Ids of a process with one worker rise, also when it loses the worker. Schedule: the ids of the
//!   lost worker are ahead of the time, and the next worker begins at the time. So the lost one is
//!   sealed first, and the next one begins at its end. Only a family with lanes follows store time
//!   that an operator set back.

mod acquisition;
mod kept_worker;
mod release;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_core::family::{Family, FamilyLimits};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::held_worker::HeldWorker;
use crate::holder_state::{HolderOptions, HolderState};
use crate::worker_calls::WorkerCalls;
use acquisition::Acquisition;
use kept_worker::KeptWorker;

/// Least and most time between two attempts of a call that failed.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Time between two acquisitions on demand: callers must be short of ids at its end.
const GROWTH_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which the demand of a caller counts while there is no worker.
const DEMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without use after which a worker above the least number is released.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Most time between two looks at the workers.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Task that keeps the workers of one family.
pub(crate) struct Keeper<C> {
    shared: Arc<HolderState>,
    calls: Arc<C>,
    options: HolderOptions,
    /// Limits of the family as of the last grant.
    limits: FamilyLimits,
    /// How far in front of store time ids were permitted at most, under all limits so far.
    ahead_ms_max: u32,
    kept: Vec<KeptWorker>,
    pending: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Acquisition that has no grant yet: it is repeated unchanged.
    acquisition: Option<Acquisition>,
    is_acquiring: bool,
    acquire_at: Instant,
    wanted_until: Instant,
    /// End of what the workers that are gone have used: the next one begins there.
    used_until: u64,
    /// Whether the next one begins at store time, on another lane, if that was set back.
    may_fall: bool,
    /// Greatest epoch of each worker that this process has used.
    used_epochs: HashMap<u32, u64>,
}

/// Answer to a call that was sent at this BOOTTIME.
enum Answer {
    Acquired(u64, Result<v1::WorkerGrant, RpcError>),
    Renewed(u64, Arc<HeldWorker>, Result<v1::WorkerGrant, RpcError>),
    Released,
}

impl<C: WorkerCalls> Keeper<C> {
    pub(crate) fn new(shared: Arc<HolderState>, calls: Arc<C>, options: HolderOptions) -> Self {
        let now = Instant::now();
        Keeper {
            limits: shared.family.limits,
            ahead_ms_max: shared.family.limits.ahead_ms,
            shared,
            calls,
            options,
            kept: Vec::new(),
            pending: FuturesUnordered::new(),
            acquisition: None,
            is_acquiring: false,
            acquire_at: now,
            wanted_until: now,
            used_until: 0,
            may_fall: false,
            used_epochs: HashMap::new(),
        }
    }

    /// Keeps the workers until stopped, then releases them.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let shared = self.shared.clone();
        loop {
            let wake_at = self.start_due_calls(Instant::now());
            tokio::select! {
                () = stop.cancelled() => break,
                Some(answer) = self.pending.next() => self.apply(answer),
                () = shared.demand.notified() => self.note_demand(Instant::now()),
                () = sleep_until(wake_at) => {}
            }
        }
        self.close().await;
    }

    /// Notes that callers are short of ids. A grant that has passed is renewed soon: after a
    /// suspend of the machine, the time of its renewal has not passed.
    fn note_demand(&mut self, now: Instant) {
        let counts_for = match self.shared.workers.load().is_empty() {
            true => DEMAND_TIMEOUT,
            false => GROWTH_INTERVAL / 2,
        };
        self.wanted_until = now + counts_for;
        let now_tick = self.shared.now_tick();
        for kept in &mut self.kept {
            if kept.held.until() <= now_tick {
                kept.renew_at = kept.renew_at.min(now + RETRY_MIN);
            }
        }
    }

    /// Starts the calls that are due; returns when the next one is.
    fn start_due_calls(&mut self, now: Instant) -> Instant {
        let mut wake_at = now + CHECK_INTERVAL;
        let now_tick = self.shared.now_tick();
        if self.drop_lost(|lost| lost.until() <= now_tick) {
            self.publish();
        }
        for at in (0..self.kept.len()).rev() {
            let kept = &mut self.kept[at];
            if kept.is_lost || kept.is_renewing {
                continue;
            }
            if now < kept.renew_at {
                wake_at = wake_at.min(kept.renew_at);
                continue;
            }
            let unused = kept.held.generator.unused();
            if unused != kept.used.0 {
                kept.used = (unused, now);
            }
            let is_idle = now - kept.used.1 >= IDLE_TIMEOUT;
            if is_idle && self.kept.len() > *self.options.workers.start() {
                let idle = self.kept.swap_remove(at);
                self.publish();
                let release = self.release(idle);
                self.pending.extend(release);
            } else {
                self.renew(at);
            }
        }
        let usable = self.kept.iter().filter(|k| !k.is_lost).count();
        let (least, most) = self.options.workers.clone().into_inner();
        let most = most.min(self.limits.workers_per_holder as usize).max(least);
        let is_wanted = usable < least || (now < self.wanted_until && usable < most);
        if is_wanted && !self.is_acquiring {
            match now < self.acquire_at {
                true => wake_at = wake_at.min(self.acquire_at),
                false => self.acquire(),
            }
        }
        wake_at
    }

    fn acquire(&mut self) {
        self.is_acquiring = true;
        let is_sticky = self.shared.family.spec.sticky;
        let repeated = self.acquisition.take().map(Ok);
        let acquisition =
            repeated.unwrap_or_else(|| Acquisition::new(&self.options.name, is_sticky, &self.kept));
        let acquisition = match acquisition {
            Ok(acquisition) => acquisition,
            Err(e) => {
                let text = format!("an acquisition needs random bytes of the system: {e}");
                let failed = Err(RpcError::new(Reason::Unspecified, text));
                let answer = ready(Answer::Acquired(0, failed));
                return self.pending.push(answer.boxed());
            }
        };
        let request = v1::AcquireWorkerRequest {
            family: self.shared.family.spec.name.clone(),
            holder: acquisition.name.clone(),
            nonce: acquisition.nonce.clone(),
            worker: self.options.claimed,
            window_ms: self.options.window_ms,
        };
        self.acquisition = Some(acquisition);
        let (calls, sent_us) = (self.calls.clone(), self.shared.clock.boot_us());
        let call = async move { Answer::Acquired(sent_us, calls.acquire(request).await) };
        self.pending.push(call.boxed());
    }

    fn renew(&mut self, at: usize) {
        let kept = &mut self.kept[at];
        kept.is_renewing = true;
        let held = kept.held.clone();
        let renewal = v1::Renewal {
            family: self.shared.family.spec.name.clone(),
            worker: held.worker(),
            epoch: held.epoch(),
            window_ms: self.options.window_ms,
            nonce: kept.nonce.clone(),
        };
        let (calls, sent_us) = (self.calls.clone(), self.shared.clock.boot_us());
        let call = async move { Answer::Renewed(sent_us, held, calls.renew(renewal).await) };
        self.pending.push(call.boxed());
    }

    /// Drops the lost workers that `is_over` selects.
    fn drop_lost(&mut self, is_over: impl Fn(&HeldWorker) -> bool) -> bool {
        let is_dropped = |k: &mut KeptWorker| k.is_lost && is_over(&k.held);
        let dropped: Vec<_> = self.kept.extract_if(.., is_dropped).collect();
        let any = !dropped.is_empty();
        dropped
            .into_iter()
            .for_each(|lost| drop(self.release(lost)));
        any
    }

    fn apply(&mut self, answer: Answer) {
        let now = Instant::now();
        match answer {
            Answer::Acquired(sent_us, answer) => {
                self.is_acquiring = false;
                self.acquire_at = now + GROWTH_INTERVAL;
                let installed = answer.and_then(|grant| {
                    // An answered acquisition is never repeated.
                    match self.acquisition.take() {
                        Some(acquisition) => self.install(sent_us, &grant, acquisition, now),
                        None => Ok(()),
                    }
                });
                if let Err(failure) = installed {
                    // It was granted without an answer, and taken back since.
                    if failure.reason() == Reason::StaleWorker {
                        self.acquisition = None;
                    }
                    self.acquire_at = now + retry_delay(&failure, RETRY_MIN);
                    self.shared.note_failure(Some(failure));
                }
            }
            Answer::Renewed(sent_us, held, answer) => {
                let kept = self.kept.iter().position(|k| Arc::ptr_eq(&k.held, &held));
                if let Some(at) = kept {
                    self.kept[at].is_renewing = false;
                    self.apply_renewal(at, sent_us, answer, now);
                }
            }
            Answer::Released => {}
        }
    }

    /// Returns whether this process has not used the epoch of a grant.
    fn is_fresh(&self, grant: &v1::WorkerGrant) -> bool {
        let last_used = self.used_epochs.get(&grant.worker);
        last_used.is_none_or(|epoch| grant.epoch > *epoch)
    }

    /// Begins the generator of a grant.
    fn install(
        &mut self,
        sent_us: u64,
        grant: &v1::WorkerGrant,
        Acquisition { nonce, place, .. }: Acquisition,
        now: Instant,
    ) -> Result<(), RpcError> {
        let bad = |what: &dyn std::fmt::Display| {
            let text = format!("the store answered a grant that cannot be used: {what}");
            RpcError::new(Reason::Unspecified, text)
        };
        if !self.is_fresh(grant) {
            return Err(bad(&"this process has used its epoch"));
        }
        let shared = self.shared.clone();
        let spec = &shared.family.spec;
        // Of another cluster at the same address, for example.
        let family = grant.family.as_ref().map(Family::try_from);
        if !matches!(family, Some(Ok(family)) if family.spec == *spec) {
            return Err(bad(&"its family is another one, or none"));
        }
        self.learn(sent_us, grant);
        // Callers that find them sealed look again, and find the next one.
        self.drop_lost(|_| true);
        // What is further ahead than a burst was used before store time was set back.
        let ahead = spec.ticks_of_ms(self.ahead_ms_max);
        if std::mem::take(&mut self.may_fall) && self.used_until > shared.now_tick() + ahead + 1 {
            self.used_until = 0;
        }
        let start = self.limits.sequence_start;
        let held = HeldWorker::new(spec, start, grant, self.used_until);
        let held = Arc::new(held.map_err(|e| bad(&e))?);
        self.used_epochs.insert(grant.worker, grant.epoch);
        tracing::debug!(
            family = spec.name,
            worker = grant.worker,
            epoch = grant.epoch,
            "worker acquired"
        );
        self.kept.push(KeptWorker {
            used: (held.generator.unused(), now),
            renew_at: now + self.time_left(&held) / 2,
            held,
            nonce,
            place,
            is_lost: false,
            is_renewing: false,
        });
        self.publish();
        // Callers that are short of ids with this worker, too, say so again.
        self.wanted_until = now;
        let _ = shared.demand.notified().now_or_never();
        self.shared.note_failure(None);
        Ok(())
    }

    fn apply_renewal(
        &mut self,
        at: usize,
        sent_us: u64,
        answer: Result<v1::WorkerGrant, RpcError>,
        now: Instant,
    ) {
        let held = self.kept[at].held.clone();
        let failure = match answer {
            Ok(grant) if held.widen(&grant) => {
                self.learn(sent_us, &grant);
                if self.was_set_back(&held) {
                    return self.hand_back(at, now);
                }
                self.kept[at].renew_at = now + (self.time_left(&held) / 2).max(RETRY_MIN);
                return self.shared.note_failure(None);
            }
            Ok(_) => RpcError::new(Reason::Unspecified, "the answer is about another worker"),
            Err(failure) => failure,
        };
        match failure.reason() {
            Reason::StaleWorker => {
                seqsvr_core::reached!("holder: a worker was lost");
                let (worker, epoch) = (held.worker(), held.epoch());
                let family = &self.shared.family.spec.name;
                tracing::warn!(family, worker, epoch, %failure, "worker lost; another is acquired");
                self.kept[at].is_lost = true;
                self.acquire_at = now;
            }
            // Store time was set back: another lane, or another worker, is at its time.
            Reason::TooFarAhead => self.hand_back(at, now),
            _ => {
                let delay = self.time_left(&held) / 8;
                self.kept[at].renew_at = now + retry_delay(&failure, delay);
                self.shared.note_failure(Some(failure));
            }
        }
    }

    /// Returns whether ids of a worker are further ahead of store time than a grant reaches: store
    /// time was set back, by less than the longest window, and another lane is at its time.
    fn was_set_back(&self, held: &HeldWorker) -> bool {
        let limits = &self.limits;
        let window_ms = limits.window_ms.max(self.options.window_ms);
        let most_ms = u64::from(self.ahead_ms_max) + u64::from(window_ms);
        let ahead = held
            .generator
            .unused()
            .saturating_sub(self.shared.now_tick());
        self.shared.family.spec.lanes() > 1
            && self.shared.duration_of(ahead) > Duration::from_millis(most_ms)
    }

    /// Releases a worker, so that another one is acquired.
    fn hand_back(&mut self, at: usize, now: Instant) {
        let kept = self.kept.swap_remove(at);
        self.publish();
        let release = self.release(kept);
        self.pending.extend(release);
        self.may_fall = self.shared.family.spec.lanes() > 1;
        self.acquire_at = now;
        self.wanted_until = now + DEMAND_TIMEOUT;
    }

    /// Learns store time and the limits of the family.
    fn learn(&mut self, sent_us: u64, grant: &v1::WorkerGrant) {
        self.shared.clock.learn(sent_us, grant.store_time_ms);
        let family = grant.family.as_ref().map(Family::try_from);
        if let Some(Ok(family)) = family {
            self.limits = family.limits;
            self.ahead_ms_max = self.ahead_ms_max.max(family.limits.ahead_ms);
            self.shared.set_limits(&family.limits);
        }
    }

    /// Returns the time until a grant ends.
    fn time_left(&self, held: &HeldWorker) -> Duration {
        let ticks = held.until().saturating_sub(self.shared.now_tick());
        self.shared.duration_of(ticks)
    }

    fn publish(&self) {
        let held = self.kept.iter().map(|k| k.held.clone());
        self.shared.workers.store(Arc::new(held.collect()));
    }
}

/// Returns when to retry a call that failed.
fn retry_delay(failure: &RpcError, least: Duration) -> Duration {
    let hint = Duration::from_millis(failure.detail.retry_after_ms.into());
    hint.max(least).clamp(RETRY_MIN, RETRY_MAX)
}

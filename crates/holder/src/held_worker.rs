//! A worker that this process holds: the generator of one worker epoch.

use std::sync::atomic::{AtomicU64, Ordering};

use seqsvr_core::family::{FamilySpec, TickStart};
use seqsvr_ids::InputError;
use seqsvr_ids::generator::{Run, SequenceStart, Splicer, WorkerGenerator};
use seqsvr_proto::v1;

/// A worker that this process holds, at one epoch.
pub struct HeldWorker {
    worker: u32,
    epoch: u64,
    lane: u8,
    splicer: Splicer,
    pub(crate) generator: WorkerGenerator,
    /// First tick that is not granted.
    until: AtomicU64,
}

impl HeldWorker {
    /// Makes the generator of a grant. It begins at `from` if that is above the grant's beginning.
    pub(crate) fn new(
        spec: &FamilySpec,
        start: TickStart,
        grant: &v1::WorkerGrant,
        from: u64,
    ) -> Result<HeldWorker, InputError> {
        let splicer = Splicer::new(&spec.layout, spec.dc, grant.worker, spec.seq_min)?;
        let lane = u8::try_from(grant.lane).ok();
        let lane = lane.filter(|lane| usize::from(*lane) < spec.lanes());
        let lane =
            lane.ok_or_else(|| InputError(format!("lane {} is none of the layout", grant.lane)))?;
        let start = match start {
            TickStart::Zero => SequenceStart::Zero,
            TickStart::Carry => SequenceStart::Carry,
            TickStart::Random { below } => SequenceStart::Random {
                below,
                key: u64::from(grant.worker),
            },
        };
        let from = from.max(grant.from);
        let limit = match seqsvr_core::planted!(PassGrantEnd) {
            true => spec.end_tick(),
            false => grant.until,
        };
        let generator = WorkerGenerator::new(splicer.grid(), start, grant.epoch, from, limit);
        Ok(HeldWorker {
            worker: grant.worker,
            epoch: grant.epoch,
            lane,
            splicer,
            generator,
            until: AtomicU64::new(grant.until),
        })
    }

    /// Returns the number of the worker.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// Returns the epoch of its holder.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the lane.
    pub fn lane(&self) -> u8 {
        self.lane
    }

    /// Returns the first tick that is not granted.
    pub fn until(&self) -> u64 {
        self.until.load(Ordering::Relaxed)
    }

    /// Widens the grant, if the answer is about this worker and epoch; returns whether it is.
    pub(crate) fn widen(&self, grant: &v1::WorkerGrant) -> bool {
        let is_own = grant.worker == self.worker
            && grant.lane == u32::from(self.lane)
            && self.generator.widen(grant.epoch, grant.until);
        if is_own {
            self.until.fetch_max(grant.until, Ordering::Relaxed);
        }
        is_own
    }

    /// Returns the id of a position that was taken of it.
    #[inline]
    pub fn id(&self, position: u64) -> u64 {
        let id = self.splicer.id(self.lane, position);
        match self.splicer.random_mask() {
            0 => id,
            mask => id ^ (seqsvr_os::random_u64() & mask),
        }
    }

    /// Adds the ids of a run that was taken of it.
    pub fn append_ids(&self, run: Run, ids: &mut Vec<u64>) {
        let begin = ids.len();
        ids.resize(begin + run.count as usize, 0);
        self.fill(run, &mut ids[begin..]);
    }

    /// Writes the ids of a run that was taken of it; `ids` is as long as the run.
    pub fn fill(&self, run: Run, ids: &mut [u64]) {
        let lane = self.lane;
        self.splicer.fill(Run { lane, ..run }, ids);
        let mask = self.splicer.random_mask();
        if mask != 0 {
            ids.iter_mut()
                .for_each(|id| *id ^= seqsvr_os::random_u64() & mask);
        }
    }
}

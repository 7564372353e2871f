//! The last id that a caller has seen.

use seqsvr_core::family::FamilySpec;
use seqsvr_core::layout::InputError;
use seqsvr_ids::codec::IdCodec;
use seqsvr_ids::generator::Run;

use crate::held_worker::HeldWorker;

/// The last id that a caller has seen: what it takes next is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    tick: u64,
    /// Worker that may continue in its tick.
    worker: Option<u32>,
    lane: u32,
    /// Position in the lane of its worker.
    position: u64,
}

impl Floor {
    /// Reads an id of a family. Its layout must be ordered by time.
    ///
    /// # Errors
    /// It is no id of the family.
    pub fn of_id(codec: &IdCodec, spec: &FamilySpec, id: u64) -> Result<Floor, InputError> {
        let parts = codec.decode(id)?;
        let in_tick = u64::from(parts.seq.saturating_sub(spec.seq_min));
        // Random bits may lie above the sequence: then only a later tick is above the id.
        let has_order_in_tick = spec.layout.bits_of("rand") == 0;
        Ok(Floor {
            tick: parts.tick,
            worker: has_order_in_tick.then_some(parts.worker),
            lane: parts.lane,
            position: parts.tick * spec.capacity() + in_tick,
        })
    }

    /// Returns the first tick at which a worker may continue: its own worker in the same tick, any
    /// other one in the next.
    pub(crate) fn first_tick(&self, worker: &HeldWorker) -> u64 {
        match self.is_of(worker) {
            true => self.tick,
            false => self.tick.saturating_add(1),
        }
    }

    /// Returns whether a run, taken from its first tick on, is above it.
    pub(crate) fn is_below(&self, worker: &HeldWorker, run: Run) -> bool {
        !self.is_of(worker) || run.first > self.position
    }

    fn is_of(&self, worker: &HeldWorker) -> bool {
        (self.worker, self.lane) == (Some(worker.worker()), worker.lane().into())
    }
}

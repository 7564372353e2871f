//! Positions become ids.
//!
//! Invariant: an id is spliced without a check, so every value must fit its field before. Data
//! center, worker and the range of the sequence are checked here against the layout. Tick, lane and
//! sequence of a position fit because the grid is made of the widths of these fields.

use seqsvr_core::layout::IdLayout;

use super::{Run, TickGrid};
use crate::InputError;
use crate::codec::{IdCodec, IdParts};

/// Makes ids of positions, by shifts.
#[derive(Clone, Copy, Debug)]
pub struct Splicer {
    grid: TickGrid,
    time_shift: u32,
    lane_shift: u32,
    sequence_shift: u32,
    least_sequence: u64,
    /// The id of tick, lane and sequence 0. The bits of inverted fields are set in it, so that an
    /// exclusive or of the value inverts it.
    origin: u64,
    random_mask: u64,
}

impl Splicer {
    /// Makes the splicer of one worker of a layout. Sequence numbers below `seq_min` are not used.
    ///
    /// # Errors
    ///
    /// If a part does not fit its field, or time, lane and sequence are wider than 63 bits.
    pub fn new(layout: &IdLayout, dc: u32, worker: u32, seq_min: u32) -> Result<Self, InputError> {
        let codec = IdCodec::new(layout);
        let encode = |seq, rand| {
            let parts = IdParts {
                dc,
                worker,
                seq,
                rand,
                ..IdParts::default()
            };
            codec.encode(&parts)
        };
        encode(seq_min, 0)?;
        let origin = encode(0, 0)?;
        let max = codec.max_parts();
        let capacity = u64::from(max.seq - seq_min) + 1;
        let shift_of = |name| {
            let mut fields = layout.fields_with_shifts();
            let named = fields.find(|(field, _)| field.kind.name() == name);
            named.map_or(0, |(_, shift)| shift)
        };
        Ok(Self {
            grid: TickGrid::new(layout.bits_of("time"), capacity, layout.bits_of("lane"))?,
            time_shift: shift_of("time"),
            lane_shift: shift_of("lane"),
            // A field of no bits may lie at bit 64.
            sequence_shift: shift_of("seq").min(u64::BITS - 1),
            least_sequence: seq_min.into(),
            origin,
            random_mask: encode(0, max.rand)? ^ origin,
        })
    }

    /// Returns the grid of positions of a generator for these ids.
    pub fn grid(&self) -> TickGrid {
        self.grid
    }

    /// Returns the bits of the random fields, which are zero in each id: a caller adds
    /// `random() & splicer.random_mask()` to make ids hard to guess. Uniqueness does not rest on
    /// them.
    pub fn random_mask(&self) -> u64 {
        self.random_mask
    }

    /// Returns the id of a position.
    #[inline]
    pub fn id(&self, lane: u8, position: u64) -> u64 {
        let tick = self.grid.tick_of(position);
        let sequence = position - self.grid.start_of(tick);
        self.base(lane, tick) ^ self.sequence_bits(sequence)
    }

    /// Writes the ids of a run; `ids` is as long as the run, or the rest of either is left out.
    pub fn fill(&self, run: Run, ids: &mut [u64]) {
        let capacity = self.grid.capacity();
        let mut position = run.first;
        let length = usize::try_from(run.count).map_or(ids.len(), |count| count.min(ids.len()));
        let mut rest = &mut ids[..length];
        while !rest.is_empty() {
            let tick = self.grid.tick_of(position);
            let sequence = position - self.grid.start_of(tick);
            let left = usize::try_from(capacity - sequence).unwrap_or(usize::MAX);
            let (part, after) = rest.split_at_mut(left.min(rest.len()));
            let base = self.base(run.lane, tick);
            for (id, sequence) in part.iter_mut().zip(sequence..) {
                *id = base ^ self.sequence_bits(sequence);
            }
            position += part.len() as u64;
            rest = after;
        }
    }

    /// Returns the id of a tick with no bit of its sequence.
    #[inline]
    fn base(&self, lane: u8, tick: u64) -> u64 {
        self.origin ^ (tick << self.time_shift) ^ (u64::from(lane) << self.lane_shift)
    }

    #[inline]
    fn sequence_bits(&self, sequence: u64) -> u64 {
        (sequence + self.least_sequence) << self.sequence_shift
    }
}

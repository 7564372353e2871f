//! Positions of a generator, and the ticks that they lie in.

use crate::InputError;

/// Widest sequence of a generator, in bits.
const SEQUENCE_BITS_MAX: u32 = 30;
/// Bits of a generator's word below its mark "sealed".
const WORD_BITS: u32 = 63;
/// Most lanes, as a number of bits.
const LANE_BITS_MAX: u32 = 3;
/// Positions kept free below the end of the word, so that no addition carries into a lane.
const RESERVE: u64 = 1 << 32;

/// Grid of positions: how many ids a tick has, how many ticks and lanes there are.
///
/// A position is one id of a lane: `tick * capacity + (sequence - least sequence)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickGrid {
    capacity: u64,
    /// The shift that divides by the capacity, if it is a power of two.
    shift: Option<u32>,
    ticks: u64,
    /// How many low bits of a word hold the position; the lane is above them.
    pub(super) position_bits: u32,
    /// The mask of these bits.
    pub(super) position_mask: u64,
    /// The end of all positions of a lane.
    pub(super) end: u64,
}

impl TickGrid {
    /// Makes a grid of `2^time_bits` ticks of `capacity` ids each, in `2^lane_bits` lanes.
    ///
    /// If time, lanes and ids use all 63 bits, the last 2^32 positions are not handed out.
    ///
    /// # Errors
    ///
    /// If a tick has no id or more than 2^30, if there are more than 3 bits of lanes, if there is
    /// no time, or if all are wider than 63 bits.
    pub fn new(time_bits: u32, capacity: u64, lane_bits: u32) -> Result<Self, InputError> {
        let seq_bits = u64::BITS - capacity.saturating_sub(1).leading_zeros();
        let bits = time_bits.saturating_add(lane_bits).saturating_add(seq_bits);
        let has_ids = (1..=1 << SEQUENCE_BITS_MAX).contains(&capacity);
        if bits > WORD_BITS || !has_ids || time_bits == 0 || lane_bits > LANE_BITS_MAX {
            return Err(InputError(format!(
                "time {time_bits} + lane {lane_bits} + seq {seq_bits} are {bits} bits, and a tick has \
                 {capacity} ids: a generator counts in at most 63 bits, and needs time, at most 3 \
                 bits of lane, and 1 to 2^30 ids a tick; write for example time:41,seq:12"
            )));
        }
        let ticks = 1 << time_bits;
        let word_end = 1u64 << (WORD_BITS - lane_bits);
        Ok(Self {
            capacity,
            shift: capacity
                .is_power_of_two()
                .then(|| capacity.trailing_zeros()),
            ticks,
            position_bits: WORD_BITS - lane_bits,
            position_mask: word_end - 1,
            end: (ticks * capacity).min(word_end.saturating_sub(RESERVE)),
        })
    }

    /// Returns how many ids a tick has.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of lanes, 1 to 8.
    pub fn lanes(&self) -> usize {
        1 << (WORD_BITS - self.position_bits)
    }

    /// Returns the first position of a tick; a tick past the end of time counts as that end.
    #[inline]
    pub fn start_of(&self, tick: u64) -> u64 {
        tick.min(self.ticks) * self.capacity
    }

    /// Returns the tick of a position.
    #[inline]
    pub fn tick_of(&self, position: u64) -> u64 {
        match self.shift {
            Some(shift) => position >> shift,
            None => position / self.capacity,
        }
    }

    /// Returns the first tick of which no position below `position` is a part.
    pub(super) fn tick_at_or_above(&self, position: u64) -> u64 {
        position.div_ceil(self.capacity)
    }
}

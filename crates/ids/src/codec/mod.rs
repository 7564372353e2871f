//! From the parts of an id to the id and back.
//!
//! Invariant: encoding is one-to-one. Schedule that breaks it: worker 1024 of 10 bits is shifted
//! without a check, its top bit is added to the time, and the id is that of worker 0 one tick
//! later. So each part is compared with its width before any is shifted.

use seqsvr_core::layout::{FieldKind, IdLayout};

use crate::InputError;

/// The parts of an id. A part that the layout does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdParts {
    /// Ticks since the epoch.
    pub tick: u64,
    /// The data center, or the upper of two levels of a worker.
    pub dc: u32,
    /// The number of the maker.
    pub worker: u32,
    /// The timeline of the worker.
    pub lane: u32,
    /// The number within the tick.
    pub seq: u32,
    /// The bits of all random fields, those of the first field highest.
    pub rand: u64,
}

/// Shifts and masks of a layout, computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdCodec {
    /// Of tick, data center, worker, lane and sequence.
    spans: [BitSpan; 5],
    /// Random fields from the least significant up.
    rand: Vec<BitSpan>,
    rand_mask: u64,
    /// Bits that are the same in all ids.
    fixed_mask: u64,
    fixed: u64,
    /// Bits of inverted fields.
    inverted: u64,
}

/// Where a part lies in an id. An absent part has the mask 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BitSpan {
    shift: u32,
    /// The greatest value.
    mask: u64,
}

impl BitSpan {
    fn new(bits: u32, shift: u32) -> BitSpan {
        BitSpan {
            // A field of no bits may lie at bit 64.
            shift: shift.min(u64::BITS - 1),
            mask: u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0),
        }
    }

    #[inline]
    fn extract(self, bits: u64) -> u64 {
        (bits >> self.shift) & self.mask
    }
}

impl IdCodec {
    /// Makes the codec of a layout.
    pub fn new(layout: &IdLayout) -> IdCodec {
        let mut codec = IdCodec {
            spans: Default::default(),
            rand: Vec::new(),
            rand_mask: BitSpan::new(layout.bits_of("rand"), 0).mask,
            // Bits above the layout are zeros as well.
            fixed_mask: u64::MAX,
            fixed: 0,
            inverted: 0,
        };
        let [tick, dc, worker, lane, seq] = &mut codec.spans;
        for (field, shift) in layout.fields_with_shifts() {
            let span = BitSpan::new(field.bits, shift);
            let in_place = span.mask << span.shift;
            if !field.kind.is_fixed() {
                codec.fixed_mask &= !in_place;
            }
            if field.kind.is_inverted() {
                codec.inverted |= in_place;
            }
            match field.kind {
                FieldKind::Zero => {}
                FieldKind::Constant(value) => codec.fixed |= value << shift,
                FieldKind::Random => codec.rand.insert(0, span),
                FieldKind::Time { .. } => *tick = span,
                FieldKind::DataCenter => *dc = span,
                FieldKind::Worker => *worker = span,
                FieldKind::Lane => *lane = span,
                FieldKind::Sequence { .. } => *seq = span,
            }
        }
        codec
    }

    /// Returns the id of these parts. An `i64` of the same bits is its signed form.
    ///
    /// # Errors
    /// A part has more bits than its field.
    #[inline]
    pub fn encode(&self, parts: &IdParts) -> Result<u64, InputError> {
        let [dc, worker, lane, seq] =
            [parts.dc, parts.worker, parts.lane, parts.seq].map(u64::from);
        let values = [parts.tick, dc, worker, lane, seq];
        let mut excess = parts.rand & !self.rand_mask;
        for (value, span) in values.iter().zip(&self.spans) {
            excess |= value & !span.mask;
        }
        if excess != 0 {
            return Err(self.reject_parts(parts));
        }
        let mut id = 0;
        for (value, span) in values.iter().zip(&self.spans) {
            id |= value << span.shift;
        }
        let mut rand = parts.rand;
        for span in &self.rand {
            id |= (rand & span.mask) << span.shift;
            rand >>= span.mask.count_ones();
        }
        Ok((id ^ self.inverted) | self.fixed)
    }

    /// Returns the parts of an id. A signed id is given by its bits, `id as u64`.
    ///
    /// # Errors
    /// A bit that is the same in all ids of the layout differs.
    #[inline]
    pub fn decode(&self, id: u64) -> Result<IdParts, InputError> {
        match id & self.fixed_mask == self.fixed {
            true => Ok(self.split(id ^ self.inverted)),
            false => Err(self.reject_id(id)),
        }
    }

    /// Returns the least and the greatest id of a tick.
    ///
    /// # Errors
    /// The tick has more bits than the time.
    pub fn tick_bounds(&self, tick: u64) -> Result<(u64, u64), InputError> {
        let id = self.encode(&IdParts {
            tick,
            ..IdParts::default()
        })?;
        let time = self.spans[0];
        let kept = self.fixed_mask | time.mask << time.shift;
        Ok((id & kept, id | !kept))
    }

    /// Returns the greatest value of each part: 0 if the layout has no such field.
    pub fn max_parts(&self) -> IdParts {
        self.split(u64::MAX)
    }

    /// Returns the name, the value and the greatest value of each part, from the tick to the random
    /// bits. Texts and JSON use these names.
    pub fn named_parts(&self, parts: &IdParts) -> [(&'static str, u64, u64); 6] {
        let max = self.max_parts();
        [
            ("tick", parts.tick, max.tick),
            ("dc", parts.dc.into(), max.dc.into()),
            ("worker", parts.worker.into(), max.worker.into()),
            ("lane", parts.lane.into(), max.lane.into()),
            ("seq", parts.seq.into(), max.seq.into()),
            ("rand", parts.rand, max.rand),
        ]
    }

    #[inline]
    fn split(&self, bits: u64) -> IdParts {
        let (mut rand, mut width) = (0, 0);
        for span in &self.rand {
            rand |= span.extract(bits) << width;
            width += span.mask.count_ones();
        }
        let [tick, dc, worker, lane, seq] = self.spans.map(|span| span.extract(bits));
        IdParts {
            tick,
            dc: dc as u32,
            worker: worker as u32,
            lane: lane as u32,
            seq: seq as u32,
            rand,
        }
    }

    #[cold]
    fn reject_parts(&self, parts: &IdParts) -> InputError {
        let parts = self.named_parts(parts).into_iter();
        let mut too_large = parts.filter(|(_, value, max)| value > max);
        let (name, value, max) = too_large.next().unwrap_or_default();
        let bounds = match max {
            0 => String::from("the layout has no bits for it, so it is 0"),
            max => format!("it has {} bits, so it is 0 to {max}", max.count_ones()),
        };
        InputError(format!(
            "{name} {value} does not fit the layout: {bounds}; use for example {name} {max}, or a \
             layout with more bits"
        ))
    }

    #[cold]
    fn reject_id(&self, id: u64) -> InputError {
        let differing = (id & self.fixed_mask) ^ self.fixed;
        let bit = u64::BITS - 1 - differing.leading_zeros();
        let is = id >> bit & 1;
        InputError(format!(
            "{id} is no id of the layout: bit {bit} of 0 to 63 is {is}, and it is {} in all ids of \
             the layout; use the preset or the family of its maker",
            1 - is
        ))
    }
}

#[cfg(test)]
mod tests;

//! From the parts of an id to the id and back.
//!
//! Invariant: encoding is one-to-one. Schedule that breaks it: worker 1024 of 10 bits is shifted
//! without a check, its top bit is added to the time, and the id is that of worker 0 one tick
//! later. So each part is compared with its width before any is shifted.

mod codec_error;
mod id_parts;

use seqsvr_core::layout::{FieldKind, IdLayout};

pub use codec_error::{NotOfLayout, PartTooLarge};
pub use id_parts::{IdPart, IdParts};

/// Shifts and masks of a layout, computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdCodec {
    /// Of each [`IdPart`] but the random bits.
    spans: [BitSpan; IdPart::Random as usize],
    /// Random fields from the least significant up.
    rand: Box<[BitSpan]>,
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
        match bits {
            0 => BitSpan::default(),
            bits => BitSpan {
                shift,
                mask: u64::MAX >> (u64::BITS - bits),
            },
        }
    }

    #[inline]
    fn extract(self, id: u64) -> u64 {
        (id >> self.shift) & self.mask
    }
}

impl IdCodec {
    /// Makes the codec of a layout.
    pub fn new(layout: &IdLayout) -> IdCodec {
        let mut codec = IdCodec {
            spans: Default::default(),
            rand: Box::default(),
            rand_mask: BitSpan::new(layout.bits_of("rand"), 0).mask,
            fixed_mask: 0,
            fixed: 0,
            inverted: 0,
        };
        let (mut rand, mut varying) = (Vec::new(), 0);
        for (field, shift) in layout.fields_with_shifts() {
            let span = BitSpan::new(field.bits, shift);
            let in_place = span.mask << span.shift;
            varying |= if field.kind.is_fixed() { 0 } else { in_place };
            codec.inverted |= if field.kind.is_inverted() {
                in_place
            } else {
                0
            };
            let part = match field.kind {
                FieldKind::Zero => continue,
                FieldKind::Constant(value) => {
                    codec.fixed |= value << shift;
                    continue;
                }
                FieldKind::Random => {
                    rand.push(span);
                    continue;
                }
                FieldKind::Time { .. } => IdPart::Tick,
                FieldKind::DataCenter => IdPart::DataCenter,
                FieldKind::Worker => IdPart::Worker,
                FieldKind::Lane => IdPart::Lane,
                FieldKind::Sequence { .. } => IdPart::Sequence,
            };
            codec.spans[part as usize] = span;
        }
        rand.reverse();
        codec.rand = rand.into();
        // Bits above the layout are zeros as well.
        codec.fixed_mask = !varying;
        codec
    }

    /// Returns the id of these parts. An `i64` of the same bits is its signed form.
    ///
    /// # Errors
    /// A part has more bits than its field.
    #[inline]
    pub fn encode(&self, parts: &IdParts) -> Result<u64, PartTooLarge> {
        let values = parts.values();
        let mut excess = parts.rand & !self.rand_mask;
        for (value, span) in values.iter().zip(&self.spans) {
            excess |= value & !span.mask;
        }
        if excess != 0 {
            return Err(self.find_too_large(parts));
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
    pub fn decode(&self, id: u64) -> Result<IdParts, NotOfLayout> {
        if id & self.fixed_mask != self.fixed {
            return Err(self.find_wrong_bit(id));
        }
        let bits = id ^ self.inverted;
        let (mut rand, mut width) = (0, 0);
        for span in &self.rand {
            rand |= span.extract(bits) << width;
            width += span.mask.count_ones();
        }
        let [tick, dc, worker, lane, seq] = self.spans.map(|span| span.extract(bits));
        Ok(IdParts {
            tick,
            dc: dc as u32,
            worker: worker as u32,
            lane: lane as u32,
            seq: seq as u32,
            rand,
        })
    }

    /// Returns the greatest value of a part: 0 if the layout has no such field.
    pub fn max_of(&self, part: IdPart) -> u64 {
        let span = self.spans.get(part as usize);
        span.map_or(self.rand_mask, |span| span.mask)
    }

    #[cold]
    fn find_too_large(&self, parts: &IdParts) -> PartTooLarge {
        let is_too_large = |part: &IdPart| parts.value_of(*part) > self.max_of(*part);
        let part = IdPart::ALL.into_iter().find(is_too_large);
        let part = part.unwrap_or(IdPart::Tick);
        PartTooLarge {
            part,
            value: parts.value_of(part),
            max: self.max_of(part),
        }
    }

    #[cold]
    fn find_wrong_bit(&self, id: u64) -> NotOfLayout {
        let differing = (id & self.fixed_mask) ^ self.fixed;
        NotOfLayout {
            id,
            bit: u64::BITS - 1 - differing.leading_zeros(),
        }
    }
}

#[cfg(test)]
mod tests;

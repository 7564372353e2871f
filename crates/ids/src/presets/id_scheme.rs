//! A layout together with its epoch and unit: all that an id needs to be read.

use std::ops::{Range, RangeInclusive};

use seqsvr_core::layout::{FieldKind, IdLayout, TickScale};

use crate::InputError;
use crate::codec::{IdCodec, IdParts};

/// A layout, its codec, and how its ticks are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdScheme {
    layout: IdLayout,
    codec: IdCodec,
    scale: TickScale,
}

/// An id that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdReading {
    /// The parts of the id.
    pub parts: IdParts,
    /// Unix time in milliseconds at which the tick begins.
    pub time_ms: u64,
}

impl IdScheme {
    /// Makes the scheme of a layout and a scale.
    pub fn new(layout: IdLayout, scale: TickScale) -> IdScheme {
        let codec = IdCodec::new(&layout);
        IdScheme {
            layout,
            codec,
            scale,
        }
    }

    /// Returns the layout.
    pub fn layout(&self) -> &IdLayout {
        &self.layout
    }

    /// Returns the codec of the layout.
    pub fn codec(&self) -> &IdCodec {
        &self.codec
    }

    /// Returns the epoch and unit of ticks.
    pub fn scale(&self) -> TickScale {
        self.scale
    }

    /// Reads an id. A signed id is given by its bits, `id as u64`.
    ///
    /// # Errors
    /// A bit that is the same in all ids of the layout differs.
    pub fn read(&self, id: u64) -> Result<IdReading, InputError> {
        let parts = self.codec.decode(id)?;
        let time_ms = self.scale.unix_ms_of(parts.tick);
        Ok(IdReading { parts, time_ms })
    }

    /// Returns the least and the greatest id with a tick of this time, from `from` up to but not
    /// including `to`, as Unix times in milliseconds. No id with another tick lies between them. A
    /// tick counts as a whole, and time without ticks does not count.
    ///
    /// # Errors
    /// Ids of this layout are not in the order of time, or the time has no tick.
    pub fn range_of_time(&self, time_ms: Range<u64>) -> Result<RangeInclusive<u64>, InputError> {
        let layout = &self.layout;
        if !layout.is_ordered_by_time() {
            return Err(InputError(format!(
                "the ids of {layout} are not ordered by time: a field above the time varies; decode \
                 each id, or use a layout that begins with the time, such as \
                 0:1,time:41,worker:10,seq:12"
            )));
        }
        let last_tick = self.codec.max_parts().tick;
        let first = self.scale.tick_at(time_ms.start).unwrap_or(0);
        let last = time_ms.end.checked_sub(1);
        let last = last.and_then(|last_ms| self.scale.tick_at(last_ms));
        let (Some(last), true) = (last, time_ms.start < time_ms.end && first <= last_tick) else {
            let Range { start, end } = time_ms;
            let [from, until] = [0, last_tick + 1].map(|tick| self.scale.unix_ms_of(tick));
            return Err(InputError(format!(
                "no id is of a time from {start} to {end}: give two Unix times in milliseconds, the \
                 later one second, within {from} to {until}"
            )));
        };
        let (least, greatest) = self.codec.tick_bounds(first)?;
        let (last_least, last_greatest) = self.codec.tick_bounds(last.min(last_tick))?;
        Ok(match layout.is_inverted() {
            false => least..=last_greatest,
            true => last_least..=greatest,
        })
    }

    /// Reads an id that [`read`](IdScheme::read) rejects because its maker did not check the time:
    /// the ticks were negative, or used up before `now_ms`. Negative ticks are those of an `i64`.
    /// Returns None if neither can be, or the time is before 1970.
    pub fn read_unchecked_time(&self, id: u64, now_ms: u64) -> Option<IdReading> {
        let mut fields = self.layout.fields_with_shifts();
        let (top, shift) = fields.find(|(field, _)| field.kind != FieldKind::Zero)?;
        if top.kind != (FieldKind::Time { inverted: false }) {
            return None;
        }
        let parts = self.codec.decode(id & ((1 << shift) - 1)).ok()?;
        let read_at = |tick: i64| {
            let since_epoch_ms = tick.checked_mul(self.scale.unit_ms() as i64)?;
            let time_ms = self.scale.epoch_ms().checked_add_signed(since_epoch_ms)?;
            let parts = IdParts {
                tick: tick as u64,
                ..parts
            };
            (tick < 0 || time_ms <= now_ms).then_some(IdReading { parts, time_ms })
        };
        read_at((id >> shift) as i64).or_else(|| read_at(id as i64 >> shift))
    }
}

//! A layout together with its epoch and unit: all that an id needs to be read.

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

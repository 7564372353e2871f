//! A layout together with its epoch and unit: all that an id needs to be read.

use seqsvr_core::layout::{IdLayout, TickScale};

use crate::codec::{IdCodec, IdParts, NotOfLayout};

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
    pub fn read(&self, id: u64) -> Result<IdReading, NotOfLayout> {
        let parts = self.codec.decode(id)?;
        let time_ms = self.scale.unix_ms_of(parts.tick);
        Ok(IdReading { parts, time_ms })
    }
}

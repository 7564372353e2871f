//! Layouts of ids: which bits of an id mean what, as plain data.
//!
//! A layout is a list of fields from the most significant bit down, `name:bits` with commas:
//! `0:1,time:41,worker:10,seq:12`. The word `unsigned` in front allows ids with the top bit.
//!
//! | Field | Meaning |
//! |---|---|
//! | `0:n` | zeros, such as the bit of the sign |
//! | `time:n`, `time~:n` | ticks since the epoch; `~`: inverted, so that later ids are smaller |
//! | `dc:n` | the data center, or the upper of two levels of a worker |
//! | `worker:n` | the number of the maker |
//! | `lane:n` | which of several timelines of a worker |
//! | `seq:n`, `seq~:n` | the number within a tick; inverted together with the time |
//! | `const:n=v` | the constant `v` |
//! | `rand:n` | random bits |
//!
//! Fields lie in any order. `0`, `const` and `rand` may occur several times, the others once.

mod checks;
mod field;
mod grammar;
mod input_error;
mod tick_scale;
mod utc_text;

pub use field::{FieldKind, LayoutField};
pub use grammar::parse_decimal;
pub use input_error::InputError;
pub use tick_scale::{TickScale, UNIT_MS_MAX};
pub use utc_text::format_utc_ms;

use serde::{Deserialize, Serialize};

/// A checked list of fields. Its text form is that of the grammar, and it is stored as that text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct IdLayout {
    /// From the most significant bit down.
    fields: Vec<LayoutField>,
    /// Whether ids may have the top bit.
    is_unsigned: bool,
}

impl IdLayout {
    /// Returns each field with the number of bits below it, from the most significant one down.
    pub fn fields_with_shifts(&self) -> impl Iterator<Item = (LayoutField, u32)> {
        let mut below = self.total_bits();
        self.fields.iter().map(move |field| {
            below -= field.bits;
            (*field, below)
        })
    }

    /// Returns the sum of the bits of all fields.
    pub fn total_bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }

    /// Returns the bits of the fields with this name; 0 if there is none.
    pub fn bits_of(&self, name: &str) -> u32 {
        let named = self.fields.iter().filter(|f| f.kind.name() == name);
        named.map(|field| field.bits).sum()
    }

    /// Returns whether ids fall with time.
    pub fn is_inverted(&self) -> bool {
        self.fields.iter().any(|field| field.kind.is_inverted())
    }

    /// Returns whether an id of a later tick is always greater, or always smaller if ids fall with
    /// time: nothing that varies lies above the time.
    pub fn is_ordered_by_time(&self) -> bool {
        let mut above = self.fields.iter().take_while(|f| f.kind.name() != "time");
        above.all(|field| field.kind.is_fixed() || field.bits == 0)
    }

    /// Returns the Unix time in milliseconds at which the ticks of this layout are used up.
    pub fn end_ms(&self, scale: TickScale) -> u64 {
        scale.unix_ms_of(1 << self.bits_of("time"))
    }
}

#[cfg(test)]
mod tests;

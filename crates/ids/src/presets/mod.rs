//! Layouts and epochs of known systems and packages.
//!
//! A preset is named after a package, not after a family of algorithms: packages of one family
//! differ in the order of fields, the unit and the epoch.

mod id_preset;
mod id_scheme;
mod preset_search;
mod table;

pub use id_preset::IdPreset;
pub use id_scheme::{IdReading, IdScheme};
pub use preset_search::{find_namesakes, find_preset};
pub use table::PRESETS;

#[cfg(test)]
mod tests;

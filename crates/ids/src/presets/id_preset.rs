//! One preset.

use seqsvr_core::layout::TickScale;

use super::IdScheme;
use crate::InputError;

/// How a system or a package lays out its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPreset {
    /// Name: a word, or a package as `registry:package`, with `:variant` where the package has
    /// several.
    pub name: &'static str,
    /// Packages that make such ids, with the version that was seen to do so.
    pub packages: Vec<(&'static str, &'static str)>,
    /// Layout in its text form.
    pub layout: &'static str,
    /// Unix time of tick 0 in milliseconds; None if each user chooses one.
    pub epoch_ms: Option<u64>,
    /// Length of a tick in milliseconds.
    pub unit_ms: u64,
    /// Least number within a tick; smaller ones are kept for clocks that are set back.
    pub seq_min: u32,
    /// What to know about it.
    pub note: &'static str,
}

impl IdPreset {
    /// Returns the scheme. `epoch_ms` replaces the epoch of the preset.
    ///
    /// # Errors
    /// The preset has no epoch and none is given, or the given one is after the year 9999.
    pub fn scheme(&self, epoch_ms: Option<u64>) -> Result<IdScheme, InputError> {
        let epoch_ms = epoch_ms.or(self.epoch_ms).ok_or_else(|| {
            let (name, why) = (self.name, self.note);
            InputError(format!(
                "preset {name} needs an epoch: {why}; give one, such as 2026-01-01 or \
                 1767225600000"
            ))
        })?;
        let scale = TickScale::new(epoch_ms, self.unit_ms)?;
        Ok(IdScheme::new(self.layout.parse()?, scale))
    }

    /// Returns the name and those of the packages.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let packages = self.packages.iter().map(|(package, _)| *package);
        std::iter::once(self.name).chain(packages)
    }

    /// Returns whether a text about the preset contains these letters.
    pub(super) fn mentions(&self, text: &str) -> bool {
        let mut texts = self.names().chain([self.note]);
        texts.any(|about| about.to_lowercase().contains(text))
    }
}

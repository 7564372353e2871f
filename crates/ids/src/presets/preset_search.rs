//! The search for a preset by its name.

use super::{IdPreset, PRESETS};

/// Returns the preset with this name, or the one of this package.
///
/// # Errors
/// There is none.
pub fn find_preset(name: &str) -> Result<&'static IdPreset, UnknownPreset> {
    let preset = PRESETS.iter().find(|preset| preset.has_name(name));
    preset.ok_or_else(|| {
        let text = name.to_lowercase();
        let similar = |preset: &&IdPreset| !text.is_empty() && preset.mentions(&text);
        let similar = PRESETS.iter().filter(similar).map(|p| p.name).collect();
        UnknownPreset {
            name: name.to_owned(),
            similar,
        }
    })
}

/// No preset has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no preset is named {name:?}: {}", suggest(similar))]
pub struct UnknownPreset {
    /// The name.
    pub name: String,
    /// Presets that mention it.
    pub similar: Vec<&'static str>,
}

fn suggest(similar: &[&str]) -> String {
    match similar {
        [] => String::from(
            "presets are words such as twitter, or packages such as crate:snowflaked; give one of \
             them, or a layout, an epoch and a unit",
        ),
        [one] => format!("use {one}"),
        several => format!(
            "it may mean {}; use the one of the package",
            several.join(", ")
        ),
    }
}

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

/// Returns presets and packages whose name has this word and whose ids are read in another way than
/// those of the preset with this name: a user of one of them may have meant it.
pub fn find_namesakes(word: &str) -> Vec<&'static str> {
    let Ok(preset) = find_preset(word) else {
        return Vec::new();
    };
    let key = |p: &IdPreset| (p.epoch_ms, p.unit_ms, p.layout.rsplit(',').next());
    let others = PRESETS.iter().filter(|other| key(other) != key(preset));
    let mut names: Vec<&str> = others.flat_map(IdPreset::names).collect();
    names.retain(|name| {
        name.split(|c: char| !c.is_alphanumeric())
            .any(|part| part == word)
    });
    names.dedup();
    names
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
            "it may mean {}, which differ; use the one of the package",
            several.join(", ")
        ),
    }
}

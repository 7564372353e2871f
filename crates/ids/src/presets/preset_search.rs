//! The search for a preset by its name.

use super::{IdPreset, PRESETS};
use crate::InputError;

/// Returns the preset with this name, or the one of this package.
///
/// # Errors
/// There is none.
pub fn find_preset(name: &str) -> Result<&'static IdPreset, InputError> {
    let has_name = |preset: &&IdPreset| preset.names().any(|own| own == name);
    let preset = PRESETS.iter().find(has_name);
    preset.ok_or_else(|| InputError(format!("no preset is named {name:?}: {}", suggest(name))))
}

fn suggest(name: &str) -> String {
    let text = name.to_lowercase();
    let similar = |preset: &&IdPreset| !text.is_empty() && preset.mentions(&text);
    let similar = PRESETS.iter().filter(similar).map(|preset| preset.name);
    match &similar.collect::<Vec<_>>()[..] {
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

//! The one table of presets.

use std::sync::LazyLock;

use super::IdPreset;

/// Every preset, as the file beside lists them: what `decode`, the documents and the tests know of
/// ids.
pub static PRESETS: LazyLock<Vec<IdPreset>> = LazyLock::new(|| {
    let lines = include_str!("presets.tsv").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    // A test checks that each row is one.
    rows.filter_map(parse_row).collect()
});

fn parse_row(row: &'static str) -> Option<IdPreset> {
    let columns: Vec<&str> = row.split('\t').collect();
    let [name, packages, layout, epoch_ms, unit_ms, seq_min, note] = columns.try_into().ok()?;
    let packages = packages.split(' ').filter_map(|text| text.split_once('='));
    Some(IdPreset {
        name,
        packages: packages.collect(),
        layout,
        // No number if each user chooses one.
        epoch_ms: epoch_ms.parse().ok(),
        unit_ms: unit_ms.parse().ok()?,
        seq_min: seq_min.parse().ok()?,
        note,
    })
}

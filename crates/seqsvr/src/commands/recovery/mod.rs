//! The commands `backup` and `restore`.

pub(super) mod backup;
mod namespace_rates;
pub(super) mod restore;

use seqsvr_store::backup::StateBackup;

/// Returns the line with the number and the names of the families of ids.
fn family_line(backup: &StateBackup) -> String {
    let families = backup.state.families();
    let names: Vec<&str> = families.map(|row| &*row.family.spec.name).collect();
    let line = format!("families  {}: {}", names.len(), names.join(", "));
    line.trim_end_matches(": ").to_owned()
}

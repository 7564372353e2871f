//! Loaded sections: opening, refilling, evicting and closing them.

pub(crate) mod evictor;
pub(crate) mod loaded_section;
pub(crate) mod lookup_cache;
pub(crate) mod rate_meter;
pub(crate) mod refiller;
pub(crate) mod section_hash;
pub(crate) mod section_lifecycle;
pub(crate) mod section_map;
pub(crate) mod table_updater;
#[cfg(test)]
pub(crate) mod test_util;
pub(crate) mod totals;

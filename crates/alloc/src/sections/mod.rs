//! Loaded sections: opening, refilling, evicting and closing them.

pub(crate) mod evictor;
pub(crate) mod loaded_section;
pub(crate) mod lookup_cache;
pub(crate) mod open_close;
pub(crate) mod rate_meter;
pub(crate) mod refill;
pub(crate) mod section_hash;
pub(crate) mod section_map;
pub(crate) mod table_updates;
#[cfg(test)]
pub(crate) mod test_util;
pub(crate) mod totals;

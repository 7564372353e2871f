//! Routing tables as callers receive them, encoded once for all of them.
//!
//! Invariant: callers of `Routes` cost at most [`BASES_MAX`] encodings for each version of the
//! table, however many they are and for all versions that they name. Schedule that breaks it:
//! thousands of callers request the table at once, each encoding of which takes a part of a
//! millisecond on the threads that everything else needs.

use std::collections::HashMap;

use parking_lot::Mutex;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::encoded_message::EncodedMessage;
use seqsvr_proto::v1;

/// Maximum versions that callers build on and for which a delta is kept. Above it a caller receives
/// the full table, which fits every caller.
const BASES_MAX: usize = 64;

/// Encoded deltas to one version of the table.
#[derive(Default)]
pub(super) struct EncodedRoutes(Mutex<EncodedDeltas>);

#[derive(Default)]
struct EncodedDeltas {
    version: u64,
    /// Deltas by the version that they build on; 0: the full table.
    by_base: HashMap<u64, EncodedMessage>,
}

impl EncodedRoutes {
    /// Returns what a table of version `base` misses; the full table if `base` is 0, above the
    /// version of the table, or one too many.
    pub(super) fn since(&self, table: &RoutingTable, base: u64) -> EncodedMessage {
        // Callers wait while one of them encodes: the others need the same bytes.
        let mut deltas = self.0.lock();
        if deltas.version != table.version() {
            deltas.version = table.version();
            deltas.by_base.clear();
        }
        let is_kept = |base| deltas.by_base.contains_key(&base);
        let has_room = deltas.by_base.len() + usize::from(!is_kept(0)) < BASES_MAX;
        let base = match base {
            base if base > table.version() => 0,
            base if is_kept(base) || has_room => base,
            _ => 0,
        };
        let encode = || EncodedMessage::new(&v1::RoutingTable::from(&table.delta_since(base)));
        deltas.by_base.entry(base).or_insert_with(encode).clone()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use seqsvr_core::ids::{ClusterId, Epoch, Slot};
    use seqsvr_core::routing_table::{Route, RoutingDelta};

    use super::*;

    /// Returns the table of a cluster in which one slot changed at each version.
    fn table_of(version: u64) -> RoutingTable {
        let route = |version| Route {
            epoch: Epoch(version),
            owner: None,
            version,
        };
        let full = RoutingDelta {
            cluster: ClusterId(1),
            base: 0,
            version,
            slot_count: 1_024,
            namespaces: Vec::new(),
            families: Vec::new(),
            routes: (1..=version).map(|v| (Slot(v as u16), route(v))).collect(),
        };
        RoutingTable::new(full).unwrap()
    }

    fn decode(encoded: &EncodedMessage) -> RoutingDelta {
        let decoded = v1::RoutingTable::decode(encoded.as_bytes()).unwrap();
        RoutingDelta::try_from(&decoded).unwrap()
    }

    /// Schedule: each caller names another version.
    #[test]
    fn routes_are_encoded_for_bounded_bases_of_one_version() {
        let (encoded, table) = (EncodedRoutes::default(), table_of(500));
        for base in 0..=501 {
            let delta = decode(&encoded.since(&table, base));
            assert!(delta == table.delta_since(base) || delta == table.delta_since(0));
        }
        assert_eq!(encoded.0.lock().by_base.len(), BASES_MAX);
        let shared = encoded.since(&table, 7);
        assert_eq!(decode(&shared), table.delta_since(7));
        let again = encoded.since(&table, 7);
        assert_eq!(shared.as_bytes().as_ptr(), again.as_bytes().as_ptr());

        let newer = table_of(501);
        assert_eq!(decode(&encoded.since(&newer, 7)), newer.delta_since(7));
        assert_eq!(encoded.0.lock().by_base.len(), 1, "the old ones are gone");
    }
}

//! Families as a client knows them: how their ids are read, and the greatest id that it received.
//!
//! Invariant: the ids that one client receives rise, also when it changes the server. Schedule that
//! breaks it: a server whose worker is ahead answers one handle and stops; the next server's worker
//! is behind. So the greatest id belongs to the client, not to a handle, and is the floor of every
//! later call. An answer that is not above it is never handed out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use seqsvr_core::family::FamilySpec;
use seqsvr_core::ids::FamilyId;
use seqsvr_core::layout::InputError;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_ids::presets::{IdReading, IdScheme};

/// Family as a client knows it.
pub(crate) struct ClientFamily {
    pub(crate) spec: FamilySpec,
    pub(crate) scheme: IdScheme,
    /// One above the greatest id that the client received; None: ids need not rise.
    next_least: Option<AtomicU64>,
}

impl ClientFamily {
    fn new(spec: FamilySpec) -> ClientFamily {
        let layout = &spec.layout;
        let ids_rise = layout.is_ordered_by_time() && !layout.is_inverted();
        ClientFamily {
            scheme: IdScheme::new(layout.clone(), spec.scale),
            next_least: ids_rise.then(AtomicU64::default),
            spec,
        }
    }

    /// Returns the least id that an answer may have from now on, if ids rise.
    pub(crate) fn least_id(&self) -> Option<u64> {
        let least = self.next_least.as_ref();
        let least = least.filter(|_| !seqsvr_core::planted!(ForgetLastId));
        least.map(|least| least.load(Ordering::Acquire))
    }

    /// Checks ids that a server gave, and makes the last one the floor of later calls. The pipe has
    /// checked that they rise.
    pub(crate) fn receive(&self, ids: &[u64]) -> Result<(), InputError> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Ok(());
        };
        self.decode(*first)?;
        if ids.len() > 1 {
            self.decode(*last)?;
        }
        if let Some(least) = &self.next_least {
            least.fetch_max(last.saturating_add(1), Ordering::AcqRel);
        }
        Ok(())
    }

    /// Reads an id of the family.
    pub(crate) fn decode(&self, id: u64) -> Result<IdReading, InputError> {
        let reading = self.scheme.read(id)?;
        let (spec, parts) = (&self.spec, reading.parts);
        for (part, value, least, greatest) in [
            ("dc", parts.dc, spec.dc, spec.dc),
            (
                "worker",
                parts.worker,
                spec.first_worker.0,
                spec.last_worker.0,
            ),
            ("seq", parts.seq, spec.seq_min, spec.seq_max()),
        ] {
            if !(least..=greatest).contains(&value) {
                let name = &spec.name;
                return Err(InputError(format!(
                    "{id} is no id of {name}: its {part} {value} is outside of {least} to \
                     {greatest}; use the family that made it"
                )));
            }
        }
        Ok(reading)
    }
}

/// Families of one client that have handles.
#[derive(Default)]
pub(crate) struct FamilyCache(Mutex<HashMap<FamilyId, Arc<ClientFamily>>>);

impl FamilyCache {
    /// Returns the family of a table with this name. All callers of a client get the same one.
    pub(crate) fn find(&self, table: &RoutingTable, name: &str) -> Option<Arc<ClientFamily>> {
        let family = table.family(name)?;
        let mut families = self.0.lock();
        let known = families.get(&family.id);
        if let Some(known) = known.filter(|known| known.spec == family.spec) {
            return Some(known.clone());
        }
        let new = Arc::new(ClientFamily::new(family.spec.clone()));
        families.insert(family.id, new.clone());
        Some(new)
    }
}

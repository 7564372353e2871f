//! The routing table and its deltas.
//!
//! Every route and namespace carries the table version of its last change. So a delta from any base
//! is the rows changed since, and deltas applied late, twice or out of order never bring an old
//! route back.
//!
//! Invariant: a table takes a version only if versions above it are left, and a row only if its
//! version is covered by the version of the delta. Schedule that breaks it: a process answers with
//! a table of version 2^64-1, or with one row of that version. No table of a store is ever newer,
//! so the false owners stay until a restart.

use hashbrown::HashMap;

use crate::family::Family;
use crate::geometry::{Geometry, GeometryKind, slot_of, uid_as_key};
use crate::ids::{ClusterId, Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot, Uid};
use crate::key::KeyRef;
use crate::namespace::Namespace;

/// Table versions are below this. A cluster gets there by no number of changes.
pub const TABLE_VERSION_END: u64 = 1 << 63;

/// Owner of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotOwner {
    /// Its session.
    pub session: SessionId,
    /// Name of the AllocSvr.
    pub name: String,
    /// Address, `host:port`.
    pub address: String,
}

/// One slot's entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Epoch of the slot.
    pub epoch: Epoch,
    /// Owner of the slot; None: no owner at the moment.
    pub owner: Option<SlotOwner>,
    /// Table version of the last change.
    pub version: u64,
}

/// Changes from `base` to `version`. `base` 0: the full table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingDelta {
    /// Cluster it belongs to.
    pub cluster: ClusterId,
    /// Version it builds on.
    pub base: u64,
    /// Version it leads to.
    pub version: u64,
    /// Number of slots of the cluster.
    pub slot_count: u32,
    /// Namespaces created or altered since `base`.
    pub namespaces: Vec<Namespace>,
    /// Families created or altered since `base`.
    pub families: Vec<Family>,
    /// Slots changed since `base`.
    pub routes: Vec<(Slot, Route)>,
}

/// Reason why a delta was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingUpdateError {
    /// The delta is of another cluster, whose table must never mix with this one.
    #[error("the routing table is of cluster {theirs}, this one is {ours}")]
    OtherCluster {
        /// Cluster of this table.
        ours: ClusterId,
        /// Cluster of the delta.
        theirs: ClusterId,
    },
    /// The delta builds on a version that this table does not have yet: the caller needs the full
    /// table.
    #[error("the delta builds on version {base}, this table has {ours}")]
    MissingVersions {
        /// Version of this table.
        ours: u64,
        /// The delta's base.
        base: u64,
    },
    /// The delta names a slot outside the table.
    #[error("slot {0} is outside the table")]
    SlotNotFound(Slot),
    /// The version of the delta is one that no cluster reaches.
    #[error("table version {0} is not below 2^63, which no cluster reaches")]
    VersionOutOfRange(u64),
    /// A row of the delta is newer than the delta.
    #[error("a row of version {row} is newer than its table of version {table}")]
    RowNewerThanTable {
        /// Version of the row.
        row: u64,
        /// Version of the delta.
        table: u64,
    },
}

/// A routing table at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingTable {
    cluster: ClusterId,
    version: u64,
    namespaces: Vec<Namespace>,
    by_name: HashMap<String, usize>,
    families: Vec<Family>,
    routes: Vec<Route>,
}

/// Reason why a key has no place in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// A key in a dense namespace.
    #[error(
        "namespace {0:?} is dense and takes a uid (a number), not a key; use a keyed namespace such as `keys`"
    )]
    NotAUid(String),
    /// A uid at or above max_uid.
    #[error(
        "uid {uid} is not below the max_uid {max_uid} of namespace {namespace:?}; use a keyed namespace for sparse ids"
    )]
    UidTooLarge {
        /// The uid.
        uid: u64,
        /// The bound.
        max_uid: u64,
        /// The namespace.
        namespace: String,
    },
    /// An empty or over-long key.
    #[error("a key has 1 to {max} bytes, not {0}", max = crate::geometry::KEY_MAX)]
    KeyLength(usize),
}

impl RoutingTable {
    /// Makes a table from a full delta (`base` 0).
    pub fn new(full: RoutingDelta) -> Result<RoutingTable, RoutingUpdateError> {
        let mut table = RoutingTable {
            cluster: full.cluster,
            version: 0,
            namespaces: Vec::new(),
            by_name: HashMap::new(),
            families: Vec::new(),
            routes: vec![Route::default(); full.slot_count as usize],
        };
        table.apply_delta(full)?;
        Ok(table)
    }

    /// Applies a delta. Returns whether it held anything newer.
    pub fn apply_delta(&mut self, delta: RoutingDelta) -> Result<bool, RoutingUpdateError> {
        if delta.cluster != self.cluster {
            return Err(RoutingUpdateError::OtherCluster {
                ours: self.cluster,
                theirs: delta.cluster,
            });
        }
        if delta.version >= TABLE_VERSION_END {
            return Err(RoutingUpdateError::VersionOutOfRange(delta.version));
        }
        if delta.base > self.version {
            return Err(RoutingUpdateError::MissingVersions {
                ours: self.version,
                base: delta.base,
            });
        }
        if delta.version <= self.version {
            return Ok(false);
        }
        if let Some((slot, _)) = delta
            .routes
            .iter()
            .find(|(slot, _)| usize::from(slot.0) >= self.routes.len())
        {
            return Err(RoutingUpdateError::SlotNotFound(*slot));
        }
        let row_versions = delta.routes.iter().map(|(_, route)| route.version);
        let row_versions = row_versions.chain(delta.namespaces.iter().map(|n| n.version));
        let mut row_versions = row_versions.chain(delta.families.iter().map(|f| f.version));
        if let Some(row) = row_versions.find(|row| *row > delta.version) {
            return Err(RoutingUpdateError::RowNewerThanTable {
                row,
                table: delta.version,
            });
        }
        for namespace in delta.namespaces {
            match self.namespaces.iter_mut().find(|n| n.id == namespace.id) {
                Some(mine) if mine.version >= namespace.version => {}
                Some(mine) => *mine = namespace,
                None => {
                    self.by_name
                        .insert(namespace.spec.name.clone(), self.namespaces.len());
                    self.namespaces.push(namespace);
                }
            }
        }
        for family in delta.families {
            match self.families.iter_mut().find(|f| f.id == family.id) {
                Some(mine) if mine.version >= family.version => {}
                Some(mine) => *mine = family,
                None => self.families.push(family),
            }
        }
        for (slot, route) in delta.routes {
            let mine = &mut self.routes[usize::from(slot.0)];
            if route.version > mine.version {
                *mine = route;
            }
        }
        self.version = delta.version;
        Ok(true)
    }

    /// Returns what a table of version `base` misses; the full table if `base` is 0 or above this
    /// one's version.
    pub fn delta_since(&self, base: u64) -> RoutingDelta {
        let base = if base > self.version { 0 } else { base };
        let routes = self
            .routes
            .iter()
            .enumerate()
            .filter(|(_, r)| base == 0 || r.version > base);
        RoutingDelta {
            cluster: self.cluster,
            base,
            version: self.version,
            slot_count: self.slot_count(),
            namespaces: self
                .namespaces
                .iter()
                .filter(|n| n.version > base)
                .cloned()
                .collect(),
            families: self
                .families
                .iter()
                .filter(|f| f.version > base)
                .cloned()
                .collect(),
            routes: routes.map(|(i, r)| (Slot(i as u16), r.clone())).collect(),
        }
    }

    /// Returns the cluster it belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of slots.
    pub fn slot_count(&self) -> u32 {
        self.routes.len() as u32
    }

    /// Returns all namespaces.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Returns a namespace by name.
    #[inline]
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.by_name.get(name).map(|i| &self.namespaces[*i])
    }

    /// Returns whether a namespace, known from this table or an older one, is strict or gone.
    pub fn is_strict(&self, known: &Namespace) -> bool {
        let now = self.namespace_by_id(known.id);
        now.is_none_or(|now| now.spec.limits.strict)
    }

    /// Returns a namespace by id.
    pub fn namespace_by_id(&self, id: NamespaceId) -> Option<&Namespace> {
        self.namespaces.iter().find(|n| n.id == id)
    }

    /// Returns all families of ids, at most [`FAMILIES_MAX`](crate::family::FAMILIES_MAX).
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Returns a family by name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|f| f.spec.name == name)
    }

    /// Returns a slot's route.
    #[inline]
    pub fn route(&self, slot: Slot) -> Option<&Route> {
        self.routes.get(usize::from(slot.0))
    }

    /// Returns all routes in slot order.
    pub fn routes(&self) -> impl Iterator<Item = (Slot, &Route)> {
        self.routes
            .iter()
            .enumerate()
            .map(|(i, r)| (Slot(i as u16), r))
    }

    /// Returns the slot of a section.
    #[inline]
    pub fn slot_of(&self, section: SectionKey) -> Slot {
        slot_of(section, self.slot_count())
    }

    /// Returns the section and slot of a key.
    #[inline]
    pub fn locate(
        &self,
        namespace: &Namespace,
        key: KeyRef<'_>,
    ) -> Result<(SectionKey, Slot), LocateError> {
        let section = SectionKey {
            namespace: namespace.id,
            section: section_of(namespace, key)?,
        };
        Ok((section, self.slot_of(section)))
    }
}

/// Returns the section of a key in a namespace, or why it has none.
#[inline]
pub fn section_of(namespace: &Namespace, key: KeyRef<'_>) -> Result<SectionId, LocateError> {
    // The usual case, small enough to be inlined into a caller that looks up many keys.
    if let KeyRef::Uid(uid) = key
        && let Some((section, _)) = namespace.spec.geometry.locate_uid(Uid(uid))
    {
        return Ok(section);
    }
    section_or_error(namespace, key)
}

#[inline(never)]
fn section_or_error(namespace: &Namespace, key: KeyRef<'_>) -> Result<SectionId, LocateError> {
    let name = || namespace.spec.name.clone();
    let geometry = &namespace.spec.geometry;
    match (geometry.kind(), key) {
        (GeometryKind::Dense, KeyRef::Uid(uid)) => match (geometry.locate_uid(Uid(uid)), *geometry)
        {
            (Some((section, _)), _) => Ok(section),
            (None, Geometry::Dense { max_uid, .. }) => Err(LocateError::UidTooLarge {
                uid,
                max_uid,
                namespace: name(),
            }),
            (None, Geometry::Keyed { .. }) => Err(LocateError::NotAUid(name())),
        },
        (GeometryKind::Dense, KeyRef::Key(_)) => Err(LocateError::NotAUid(name())),
        (GeometryKind::Keyed, KeyRef::Uid(uid)) => {
            section_or_error(namespace, KeyRef::Key(uid_as_key(Uid(uid)).as_bytes()))
        }
        (GeometryKind::Keyed, KeyRef::Key(key)) => match geometry.locate_key(key) {
            Some(section) if (1..=crate::geometry::KEY_MAX).contains(&key.len()) => Ok(section),
            _ => Err(LocateError::KeyLength(key.len())),
        },
    }
}

#[cfg(test)]
mod tests;

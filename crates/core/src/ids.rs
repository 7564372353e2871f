//! Identifiers. Each is a type of its own, so that a uid cannot be mistaken for a section, or an
//! epoch for a generation.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Key of one sequence in a dense namespace.
    Uid(u64)
);
id!(
    /// Namespace number, given by the store at creation, never reused. 1 is `default`, 2 is `keys`.
    NamespaceId(u32)
);
id!(
    /// Number of a section inside its namespace.
    SectionId(u32)
);
id!(
    /// Unit of ownership and routing, below the cluster's `slots`.
    Slot(u16)
);
id!(
    /// Fencing token of a slot; grows with each change of owner. 0: never owned.
    Epoch(u64)
);
id!(
    /// Count of `Open`s of a section. 0: never opened.
    Generation(u64)
);
id!(
    /// One AllocSvr process's registration. Never reused; starts at 1.
    SessionId(u64)
);
id!(
    /// Family of ids, given by the store at creation, never reused. Starts at 1.
    FamilyId(u32)
);
id!(
    /// Number in an id that says who made it.
    WorkerId(u32)
);
id!(
    /// Fencing token of a worker; grows with each acquisition, release and revocation. 0: never
    /// held.
    WorkerEpoch(u64)
);

/// A worker across all families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerKey {
    /// Family it belongs to.
    pub family: FamilyId,
    /// Number inside the family.
    pub worker: WorkerId,
}

/// A section across all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SectionKey {
    /// Namespace it belongs to.
    pub namespace: NamespaceId,
    /// Number inside the namespace.
    pub section: SectionId,
}

impl fmt::Display for SectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.section)
    }
}

/// Random identity of a cluster, fixed at `init`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u128);

/// Random 128-bit value that identifies a retry of a request and proves a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nonce(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

impl fmt::Debug for Nonce {
    /// A nonce proves a session, so it is not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

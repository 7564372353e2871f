//! Tag of the cluster that a message belongs to.
//!
//! Invariant: a number of one cluster is never answered to, or taken by, a caller of another one.
//!
//! Schedule that breaks it without tags: a client of cluster 1 keeps a route to an address. That
//! AllocSvr goes away, and an AllocSvr of cluster 2 gets the address (a reused pod address, a wiped
//! and newly made cluster). The client connects again and receives numbers that cluster 1 gave out
//! long ago.
//!
//! A tag is the low half of the cluster id, so two random ids share a tag with probability 2^-64.
//! With 32 bits, 10,000 clusters whose addresses are reused among each other would collide with
//! probability 1 %.

use seqsvr_core::ids::ClusterId;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::v1;

/// Metadata key by which both sides of a Pipe name their cluster at its opening: 16 hexadecimal
/// digits.
pub const METADATA_KEY: &str = "seqsvr-cluster-tag";

/// Metadata that should name a cluster and does not have the form of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata {METADATA_KEY} must have 16 hexadecimal digits")]
pub struct InvalidClusterTag;

/// Short name of a cluster. 0 names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTag(pub u64);

impl ClusterTag {
    /// Tag that names no cluster.
    pub const NONE: ClusterTag = ClusterTag(0);

    /// Returns the tag of a cluster; never [`ClusterTag::NONE`].
    pub fn from_cluster_id(cluster: ClusterId) -> ClusterTag {
        ClusterTag((cluster.0 as u64).max(1))
    }

    /// Returns whether the two name different clusters. A side that names none matches every
    /// cluster.
    pub fn conflicts_with(self, other: ClusterTag) -> bool {
        self != other && self != ClusterTag::NONE && other != ClusterTag::NONE
    }

    /// Reads the tag from the metadata of a Pipe.
    ///
    /// # Errors
    /// The value is not a tag.
    pub fn from_metadata(metadata: &MetadataMap) -> Result<ClusterTag, InvalidClusterTag> {
        let Some(value) = metadata.get(METADATA_KEY) else {
            return Ok(ClusterTag::NONE);
        };
        let text = value.to_str().ok().filter(|text| text.len() == 16);
        let tag = text.and_then(|text| u64::from_str_radix(text, 16).ok());
        tag.map(ClusterTag).ok_or(InvalidClusterTag)
    }

    /// Writes the tag into the metadata of a Pipe, unless it names no cluster.
    pub fn write_metadata(self, metadata: &mut MetadataMap) {
        if self != ClusterTag::NONE
            && let Ok(value) = MetadataValue::try_from(self.to_string())
        {
            metadata.insert(METADATA_KEY, value);
        }
    }
}

impl std::fmt::Display for ClusterTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A message that names its cluster.
pub trait ClusterTagged {
    /// Returns the cluster it names.
    fn cluster_tag(&self) -> ClusterTag;
    /// Sets the cluster it names.
    fn set_cluster_tag(&mut self, tag: ClusterTag);
}

macro_rules! impl_cluster_tagged {
    ($($message:ident),* $(,)?) => {$(
        impl ClusterTagged for v1::$message {
            fn cluster_tag(&self) -> ClusterTag {
                ClusterTag(self.cluster_tag)
            }

            fn set_cluster_tag(&mut self, tag: ClusterTag) {
                self.cluster_tag = tag.0;
            }
        }
    )*};
}

impl_cluster_tagged!(
    NextRequest,
    NextResponse,
    NextManyRequest,
    NextManyResponse,
    CurrentRequest,
    CurrentResponse,
    CurrentManyRequest,
    CurrentManyResponse,
    RaiseToRequest,
    RaiseToResponse,
    RoutesRequest,
    OpenSessionRequest,
    OpenSessionResponse,
    KeepAliveRequest,
    KeepAliveResponse,
    WatchRequest,
    SubmitRequest,
    SubmitResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    MoveSlotRequest,
    MoveSlotResponse,
    WorkersRequest,
    WorkersResponse,
    ReadRequest,
    ReadResponse,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_named_clusters_conflict() {
        let [one, two] = [ClusterId(1 << 64 | 1), ClusterId(2)].map(ClusterTag::from_cluster_id);
        assert!(one.conflicts_with(two) && !one.conflicts_with(one));
        assert!(!one.conflicts_with(ClusterTag::NONE) && !ClusterTag::NONE.conflicts_with(one));
        assert_ne!(
            ClusterTag::from_cluster_id(ClusterId(1 << 64)),
            ClusterTag::NONE
        );
    }

    #[test]
    fn cluster_tag_metadata_is_optional() {
        let mut metadata = MetadataMap::new();
        assert_eq!(
            ClusterTag::from_metadata(&metadata).unwrap(),
            ClusterTag::NONE
        );
        ClusterTag::NONE.write_metadata(&mut metadata);
        assert!(metadata.is_empty());
        let tag = ClusterTag(0x00ab_cdef_0123_4567);
        tag.write_metadata(&mut metadata);
        assert_eq!(ClusterTag::from_metadata(&metadata).unwrap(), tag);
        for wrong in ["", "12", "00abcdef0123456g", "00abcdef012345678"] {
            metadata.insert(METADATA_KEY, wrong.parse().unwrap());
            let read = ClusterTag::from_metadata(&metadata);
            assert_eq!(read, Err(InvalidClusterTag), "{wrong}");
        }
    }
}

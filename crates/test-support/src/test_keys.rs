//! The sequences that a load uses: 100,000 uids and keys in three namespaces of both kinds.

use std::num::NonZeroU64;

use seqsvr_check::SequenceName;
use seqsvr_client::{Client, Key};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_core::progression::Progression;

use crate::build_variant;

/// Number of sequences in all namespaces.
pub const TEST_KEYS: u64 = 100_000;
/// Sequences of each namespace except the last, which has the rest.
const KEYS_PER_NAMESPACE: u64 = 33_333;
/// Name of the third namespace: dense, with small sections, small windows and every third number.
pub const THIRDS_NAMESPACE: &str = "thirds";
const THIRDS_STRIDE: u32 = 3;
const THIRDS_OFFSET: u32 = 2;

/// One uid or key, and its name in a history.
#[derive(Clone, Debug)]
pub struct TestKey {
    /// Name of its namespace.
    pub namespace: &'static str,
    /// The uid or key.
    pub key: Key,
    /// Distance between two numbers of the namespace.
    pub stride: NonZeroU64,
    /// Its name in a history.
    pub sequence: SequenceName,
}

impl TestKey {
    /// Returns the smallest number of its namespace that is not below `n`.
    pub(crate) fn round_up(&self, n: u64) -> u64 {
        let stride = self.stride.get();
        let offset = u64::from(THIRDS_OFFSET) % stride;
        n + (offset + stride - n % stride) % stride
    }

    /// Creates the test key of a uid in a dense namespace.
    pub fn from_uid(namespace: &'static str, uid: u64, stride: u32) -> TestKey {
        TestKey {
            namespace,
            key: Key::Uid(uid),
            stride: NonZeroU64::new(u64::from(stride)).expect("a stride"),
            sequence: SequenceName::for_uid(namespace, uid),
        }
    }

    /// Creates the test key of a key in a keyed namespace.
    pub fn from_key(namespace: &'static str, key: String) -> TestKey {
        TestKey {
            namespace,
            sequence: SequenceName::for_key(namespace, &key),
            key: key.into(),
            stride: NonZeroU64::MIN,
        }
    }
}

/// Returns all test keys, one list for each namespace: `default` (200 sections of many neighbors),
/// `keys` (all 4,096 sections, names and sparse ids), and `thirds`.
pub fn all_test_keys() -> Vec<Vec<TestKey>> {
    let dense = (0..KEYS_PER_NAMESPACE)
        .map(|i| TestKey::from_uid("default", i % 200 * 100_000 + i / 200, 1));
    let keyed = (0..KEYS_PER_NAMESPACE).map(|i| match i % 2 {
        0 => TestKey::from_key("keys", format!("user {i}")),
        _ => TestKey::from_key("keys", i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string()),
    });
    let thirds = (0..TEST_KEYS - 2 * KEYS_PER_NAMESPACE)
        .map(|i| TestKey::from_uid(THIRDS_NAMESPACE, i, THIRDS_STRIDE));
    vec![dense.collect(), keyed.collect(), thirds.collect()]
}

/// Creates the third namespace.
pub async fn create_third_namespace(client: &Client) {
    let spec = NamespaceSpec {
        progression: Progression {
            start: 10,
            stride: THIRDS_STRIDE,
            offset: THIRDS_OFFSET,
        },
        // Small, so that the load needs the store all the time.
        step: 20,
        limits: NamespaceLimits {
            step_max: 200,
            ..build_variant::namespace_limits()
        },
        ..NamespaceSpec::new(
            THIRDS_NAMESPACE,
            Geometry::Dense {
                section_size: 500,
                max_uid: 1 << 20,
            },
        )
    };
    let made = client.admin().create_namespace(&spec).await;
    made.expect("the namespace is created");
}

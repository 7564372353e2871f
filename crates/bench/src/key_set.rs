//! The keys of a run, and how calls are distributed over them.

use bytes::{Bytes, BytesMut};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Zipf};
use seqsvr_check::SequenceName;
use seqsvr_client::Key;

use crate::settings::KeyDistribution;

/// Exponent of Zipf's law, as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// Factor that spreads ranks over keys, so that the frequent ones are not neighbors in one
/// section. It is a prime above the maximum number of keys, so that each rank has its own key.
const RANK_SPREAD: u64 = 2_654_435_761;

/// The keys of a run, by index.
pub(crate) struct KeySet {
    count: u32,
    distribution: KeyDistribution,
    zipf: Option<Zipf<f64>>,
    key_bytes: Option<usize>,
    namespaces: Vec<String>,
}

impl KeySet {
    /// Creates `count` keys in each of the namespaces: keys of `key_bytes` bytes, or uids.
    pub(crate) fn new(
        count: u32,
        distribution: KeyDistribution,
        key_bytes: Option<u32>,
        namespaces: Vec<String>,
    ) -> KeySet {
        let is_zipf = matches!(distribution, KeyDistribution::Zipf);
        KeySet {
            count,
            distribution,
            // It fails only without keys, or with an invalid exponent.
            zipf: is_zipf
                .then(|| Zipf::new(f64::from(count), ZIPF_EXPONENT).ok())
                .flatten(),
            key_bytes: key_bytes.map(|n| n as usize),
            namespaces,
        }
    }

    /// Returns the number of keys in all namespaces.
    pub(crate) fn total(&self) -> u32 {
        self.namespaces.len() as u32 * self.count
    }

    /// Draws the namespace of the next call. Returns the index of its first key.
    pub(crate) fn draw_namespace(&self, rng: &mut SmallRng) -> u32 {
        rng.random_range(0..self.namespaces.len() as u32) * self.count
    }

    /// Draws the key of the next item. Returns its index within the namespace.
    pub(crate) fn draw_key(&self, rng: &mut SmallRng) -> u32 {
        match (self.distribution, &self.zipf) {
            (KeyDistribution::Hot, _) => 0,
            (KeyDistribution::Zipf, Some(zipf)) => {
                let rank = zipf.sample(rng) as u64 - 1;
                (rank * RANK_SPREAD % u64::from(self.count)) as u32
            }
            _ => rng.random_range(0..self.count),
        }
    }

    /// Returns the index of a key's namespace in the settings.
    pub(crate) fn namespace_index(&self, index: u32) -> usize {
        (index / self.count) as usize
    }

    /// Returns the namespace of a key.
    pub(crate) fn namespace_of(&self, index: u32) -> &str {
        &self.namespaces[self.namespace_index(index)]
    }

    /// Returns the key as the SDK has it.
    pub(crate) fn key_at(&self, index: u32) -> Key {
        let key_index = index % self.count;
        match self.key_bytes {
            None => Key::Uid(u64::from(key_index)),
            Some(bytes) => {
                let mut text = BytesMut::zeroed(bytes);
                write_digits(key_index, &mut text);
                Key::from(text.freeze())
            }
        }
    }

    /// Calls `make` for each of many keys. Their texts share one allocation.
    pub(crate) fn map_keys<T>(
        &self,
        indexes: impl ExactSizeIterator<Item = u32>,
        make: impl Fn(Key) -> T,
    ) -> Vec<T> {
        match self.key_bytes {
            None => self
                .uids_at(indexes)
                .map(|uid| make(Key::Uid(uid)))
                .collect(),
            Some(bytes) => {
                let texts = self.texts_at(bytes, indexes).into_iter();
                texts.map(|text| make(Key::from(text))).collect()
            }
        }
    }

    /// Returns the columns of a request for many keys: uids or keys.
    pub(crate) fn request_columns(
        &self,
        indexes: impl ExactSizeIterator<Item = u32>,
    ) -> (Vec<u64>, Vec<Bytes>) {
        match self.key_bytes {
            None => (self.uids_at(indexes).collect(), Vec::new()),
            Some(bytes) => (Vec::new(), self.texts_at(bytes, indexes)),
        }
    }

    fn uids_at(
        &self,
        indexes: impl ExactSizeIterator<Item = u32>,
    ) -> impl ExactSizeIterator<Item = u64> {
        indexes.map(|index| u64::from(index % self.count))
    }

    fn texts_at(&self, bytes: usize, indexes: impl ExactSizeIterator<Item = u32>) -> Vec<Bytes> {
        let key_count = indexes.len();
        let mut text = BytesMut::zeroed(key_count * bytes);
        for (key, index) in text.chunks_exact_mut(bytes).zip(indexes) {
            write_digits(index % self.count, key);
        }
        let text = text.freeze();
        let slice_key = |i| text.slice(i * bytes..(i + 1) * bytes);
        (0..key_count).map(slice_key).collect()
    }

    /// Returns the key as a history has it.
    pub(crate) fn history_sequence(&self, index: u32) -> SequenceName {
        match self.key_at(index) {
            Key::Uid(uid) => SequenceName::for_uid(self.namespace_of(index), uid),
            Key::Key(key) => SequenceName::for_key(self.namespace_of(index), key),
        }
    }
}

/// Writes decimal digits to the end of `text` and fills the rest with zeros. `text` must have room
/// for all digits.
fn write_digits(number: u32, text: &mut [u8]) {
    let mut rest = number;
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use rand::SeedableRng;

    use super::*;

    fn key_set(count: u32, distribution: KeyDistribution) -> KeySet {
        KeySet::new(count, distribution, None, vec!["default".to_owned()])
    }

    fn draw_counts(keys: &KeySet, times: u32) -> HashMap<u32, u32> {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut seen = HashMap::new();
        for _ in 0..times {
            *seen.entry(keys.draw_key(&mut rng)).or_default() += 1;
        }
        seen
    }

    #[test]
    fn draw_key_follows_the_distribution() {
        assert_eq!(
            draw_counts(&key_set(1_000, KeyDistribution::Hot), 100).len(),
            1
        );
        let uniform = draw_counts(&key_set(100, KeyDistribution::Uniform), 100_000);
        assert_eq!(uniform.len(), 100);
        assert!(uniform.values().all(|n| (800..1_200).contains(n)));
        // With 1,000 keys the first rank has about 1 / H(1000) = 13 % of the calls.
        let zipf = draw_counts(&key_set(1_000, KeyDistribution::Zipf), 100_000);
        let first = zipf[&0];
        assert!((12_000..15_000).contains(&first), "{first}");
        assert!(zipf.len() > 900, "{}", zipf.len());
        assert!(zipf.keys().all(|k| *k < 1_000));
    }

    #[test]
    fn zipf_ranks_have_distinct_keys() {
        for count in [1_000u64, 4_096, 99_999] {
            let spread: HashSet<u64> = (0..count).map(|rank| rank * RANK_SPREAD % count).collect();
            assert_eq!(spread.len() as u64, count);
        }
    }

    #[test]
    fn key_names_have_leading_zeros_and_belong_to_namespaces() {
        let two = ["a".to_owned(), "b".to_owned()].to_vec();
        let keys = KeySet::new(10, KeyDistribution::Uniform, Some(12), two);
        assert_eq!((keys.namespace_of(9), keys.namespace_of(10)), ("a", "b"));
        assert_eq!(keys.key_at(14), Key::from("000000000004"));
        let all = keys.map_keys([3, 19].into_iter(), |key| key);
        assert_eq!(all, [Key::from("000000000003"), Key::from("000000000009")]);
    }
}

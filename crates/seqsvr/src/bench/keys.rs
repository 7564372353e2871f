//! The keys of a run, and how calls are distributed over them.

use bytes::{Bytes, BytesMut};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Zipf};
use seqsvr_check::Sequence;
use seqsvr_client::Key;

use crate::cli::Distribution;

/// Exponent of Zipf's law, as in YCSB.
const EXPONENT: f64 = 0.99;
/// Factor that spreads ranks over keys, so that the frequent ones are not neighbors in one
/// section. It is a prime above the maximum number of keys, so that each rank has its own key.
const SPREAD: u64 = 2_654_435_761;

/// The keys of a run, by index.
pub(crate) struct Keys {
    count: u32,
    distribution: Distribution,
    zipf: Option<Zipf<f64>>,
    bytes: Option<usize>,
    namespaces: Vec<String>,
}

impl Keys {
    /// Creates `count` keys in each of the namespaces: keys of `bytes` bytes, or uids.
    pub(crate) fn new(
        count: u32,
        distribution: Distribution,
        bytes: Option<u32>,
        namespaces: Vec<String>,
    ) -> Keys {
        let zipf = matches!(distribution, Distribution::Zipf);
        Keys {
            count,
            distribution,
            // It fails only without keys, or with an invalid exponent.
            zipf: zipf
                .then(|| Zipf::new(f64::from(count), EXPONENT).ok())
                .flatten(),
            bytes: bytes.map(|n| n as usize),
            namespaces,
        }
    }

    /// Draws the namespace of the next call. Returns the index of its first key.
    pub(crate) fn pick_namespace(&self, rng: &mut SmallRng) -> u32 {
        rng.random_range(0..self.namespaces.len() as u32) * self.count
    }

    /// Draws the key of the next item. Returns its index within the namespace.
    pub(crate) fn pick(&self, rng: &mut SmallRng) -> u32 {
        match (self.distribution, &self.zipf) {
            (Distribution::Hot, _) => 0,
            (Distribution::Zipf, Some(zipf)) => {
                let rank = zipf.sample(rng) as u64 - 1;
                (rank * SPREAD % u64::from(self.count)) as u32
            }
            _ => rng.random_range(0..self.count),
        }
    }

    /// Returns the namespace of a key.
    pub(crate) fn namespace(&self, index: u32) -> &str {
        &self.namespaces[(index / self.count) as usize]
    }

    /// Returns the key as the SDK has it.
    pub(crate) fn key(&self, index: u32) -> Key {
        let own = index % self.count;
        match self.bytes {
            None => Key::Uid(u64::from(own)),
            Some(bytes) => {
                let mut text = BytesMut::zeroed(bytes);
                write(own, &mut text);
                Key::from(text.freeze())
            }
        }
    }

    /// Calls `make` for each of many keys. Their texts share one allocation.
    pub(crate) fn each<T>(
        &self,
        indices: impl ExactSizeIterator<Item = u32>,
        make: impl Fn(Key) -> T,
    ) -> Vec<T> {
        match self.bytes {
            None => self.uids(indices).map(|uid| make(Key::Uid(uid))).collect(),
            Some(bytes) => {
                let texts = self.texts(bytes, indices).into_iter();
                texts.map(|text| make(Key::from(text))).collect()
            }
        }
    }

    /// Returns the columns of a request for many keys: uids or keys.
    pub(crate) fn columns(
        &self,
        indices: impl ExactSizeIterator<Item = u32>,
    ) -> (Vec<u64>, Vec<Bytes>) {
        match self.bytes {
            None => (self.uids(indices).collect(), Vec::new()),
            Some(bytes) => (Vec::new(), self.texts(bytes, indices)),
        }
    }

    fn uids(
        &self,
        indices: impl ExactSizeIterator<Item = u32>,
    ) -> impl ExactSizeIterator<Item = u64> {
        indices.map(|index| u64::from(index % self.count))
    }

    fn texts(&self, bytes: usize, indices: impl ExactSizeIterator<Item = u32>) -> Vec<Bytes> {
        let n = indices.len();
        let mut text = BytesMut::zeroed(n * bytes);
        for (key, index) in text.chunks_exact_mut(bytes).zip(indices) {
            write(index % self.count, key);
        }
        let text = text.freeze();
        let one = |i| text.slice(i * bytes..(i + 1) * bytes);
        (0..n).map(one).collect()
    }

    /// Returns the key as a history has it.
    pub(crate) fn sequence(&self, index: u32) -> Sequence {
        match self.key(index) {
            Key::Uid(uid) => Sequence::uid(self.namespace(index), uid),
            Key::Key(key) => Sequence::key(self.namespace(index), key),
        }
    }
}

/// Writes decimal digits to the end of `text` and fills the rest with zeros. `text` must have room
/// for all digits.
fn write(number: u32, text: &mut [u8]) {
    let mut left = number;
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use rand::SeedableRng;

    use super::*;

    fn keys(count: u32, distribution: Distribution) -> Keys {
        Keys::new(count, distribution, None, vec!["default".to_owned()])
    }

    fn drawn(keys: &Keys, times: u32) -> HashMap<u32, u32> {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut seen = HashMap::new();
        for _ in 0..times {
            *seen.entry(keys.pick(&mut rng)).or_default() += 1;
        }
        seen
    }

    #[test]
    fn distributions() {
        assert_eq!(drawn(&keys(1_000, Distribution::Hot), 100).len(), 1);
        let uniform = drawn(&keys(100, Distribution::Uniform), 100_000);
        assert_eq!(uniform.len(), 100);
        assert!(uniform.values().all(|n| (800..1_200).contains(n)));
        // With 1,000 keys the first rank has about 1 / H(1000) = 13 % of the calls.
        let zipf = drawn(&keys(1_000, Distribution::Zipf), 100_000);
        let first = zipf[&0];
        assert!((12_000..15_000).contains(&first), "{first}");
        assert!(zipf.len() > 900, "{}", zipf.len());
        assert!(zipf.keys().all(|k| *k < 1_000));
    }

    #[test]
    fn ranks_have_keys_of_their_own() {
        for count in [1_000u64, 4_096, 99_999] {
            let spread: HashSet<u64> = (0..count).map(|rank| rank * SPREAD % count).collect();
            assert_eq!(spread.len() as u64, count);
        }
    }

    #[test]
    fn names() {
        let two = ["a".to_owned(), "b".to_owned()].to_vec();
        let keys = Keys::new(10, Distribution::Uniform, Some(12), two);
        assert_eq!((keys.namespace(9), keys.namespace(10)), ("a", "b"));
        assert_eq!(keys.key(14), Key::from("000000000004"));
        let all = keys.each([3, 19].into_iter(), |key| key);
        assert_eq!(all, [Key::from("000000000003"), Key::from("000000000009")]);
    }
}

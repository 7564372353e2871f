//! Sorted map whose copies share their pages.
//!
//! A snapshot or a backup needs the state of one moment, and entries are applied while it is
//! written. A copy of this map takes one pointer a page. A page is copied when a row in it changes
//! for the first time afterwards, so a change copies at most [`PAGE_ROWS_MAX`] rows. That does not
//! depend on the size of the map.

use std::fmt;
use std::sync::Arc;

/// Maximum rows of a page. A page that is full splits in two.
const PAGE_ROWS_MAX: usize = if cfg!(test) { 8 } else { 512 };
/// Rows for which a full allocation grows. Doubling would leave up to half of the memory unused.
const PAGE_GROWTH_ROWS: usize = PAGE_ROWS_MAX / 8;

/// Rows of a page, in order.
type RowPage<K, V> = Vec<(K, V)>;

/// Sorted map of small rows. Its copies are cheap.
#[derive(Clone)]
pub struct PagedMap<K, V> {
    /// Pages in order, none of them empty, each under a key that is not above its first row and
    /// above all rows of the page before it. The first page also takes smaller keys.
    pages: Vec<(K, Arc<RowPage<K, V>>)>,
    len: usize,
}

impl<K: Ord + Copy, V: Clone> PagedMap<K, V> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let (_, page) = self.pages.get(self.page_of(key))?;
        let at = find_row(page, key).ok()?;
        page.get(at).map(|(_, value)| value)
    }

    /// Returns whether the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Returns the value of a key for a change. Copies its page if a copy of the map shares it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let index = self.page_of(key);
        let (_, page) = self.pages.get_mut(index)?;
        let at = find_row(page, key).ok()?;
        Arc::make_mut(page).get_mut(at).map(|(_, value)| value)
    }

    /// Sets the value of a key. Returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let index = self.page_of(&key);
        let Some((_, page)) = self.pages.get_mut(index) else {
            self.pages.push((key, Arc::new(vec![(key, value)])));
            self.len += 1;
            return None;
        };
        let at = match find_row(page, &key) {
            Ok(at) => {
                let row = Arc::make_mut(page).get_mut(at)?;
                return Some(std::mem::replace(&mut row.1, value));
            }
            Err(at) => at,
        };
        self.len += 1;
        if page.len() < PAGE_ROWS_MAX {
            insert_row(Arc::make_mut(page), at, (key, value));
            return None;
        }
        // Rows that come in order fill their pages.
        let split = if at == PAGE_ROWS_MAX {
            at
        } else {
            PAGE_ROWS_MAX / 2
        };
        let page = Arc::make_mut(page);
        let mut upper = page.split_off(split);
        page.shrink_to(PAGE_ROWS_MAX / 2 + PAGE_GROWTH_ROWS);
        match at < split {
            true => insert_row(page, at, (key, value)),
            false => insert_row(&mut upper, at - split, (key, value)),
        }
        let first = upper.first().map_or(key, |(first, _)| *first);
        self.pages.insert(index + 1, (first, Arc::new(upper)));
        None
    }

    /// Removes a key. Returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let index = self.page_of(key);
        let (_, page) = self.pages.get_mut(index)?;
        let at = find_row(page, key).ok()?;
        self.len -= 1;
        if page.len() == 1 {
            let (_, page) = self.pages.remove(index);
            return page.first().map(|(_, value)| value.clone());
        }
        Some(Arc::make_mut(page).remove(at).1)
    }

    /// Iterates over all rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let rows = self.pages.iter().flat_map(|(_, page)| page.iter());
        rows.map(|(key, value)| (key, value))
    }

    /// Iterates in order over the rows whose keys are not below `from`.
    pub fn iter_from(&self, from: K) -> impl Iterator<Item = (&K, &V)> {
        let pages = self.pages.get(self.page_of(&from)..).unwrap_or_default();
        let (first, rest) = match pages {
            [(_, page), rest @ ..] => {
                let above = page.partition_point(|(key, _)| *key < from);
                (page.get(above..).unwrap_or_default(), rest)
            }
            [] => (Default::default(), pages),
        };
        let rest = rest.iter().flat_map(|(_, page)| page.iter());
        first.iter().chain(rest).map(|(key, value)| (key, value))
    }

    /// Returns the index of the page that has the key, or would have it.
    fn page_of(&self, key: &K) -> usize {
        let above = self.pages.partition_point(|(first, _)| first <= key);
        above.saturating_sub(1)
    }
}

fn find_row<K: Ord, V>(page: &[(K, V)], key: &K) -> Result<usize, usize> {
    page.binary_search_by(|(k, _)| k.cmp(key))
}

fn insert_row<T>(page: &mut Vec<T>, at: usize, row: T) {
    if page.len() == page.capacity() {
        page.reserve_exact(PAGE_GROWTH_ROWS);
    }
    page.insert(at, row);
}

impl<K, V> Default for PagedMap<K, V> {
    fn default() -> Self {
        PagedMap {
            pages: Vec::new(),
            len: 0,
        }
    }
}

/// Two maps with the same rows are equal, however these lie in pages.
impl<K: Ord + Copy, V: Clone + PartialEq> PartialEq for PagedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Copy, V: Clone + Eq> Eq for PagedMap<K, V> {}

impl<K: Ord + Copy + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for PagedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8, u32),
        Change(u8, u32),
        Remove(u8),
        Copy,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (any::<u8>(), any::<u32>()).prop_map(|(k, v)| Op::Insert(k, v)),
            2 => (any::<u8>(), any::<u32>()).prop_map(|(k, v)| Op::Change(k, v)),
            2 => any::<u8>().prop_map(Op::Remove),
            1 => Just(Op::Copy),
        ]
    }

    fn rows(map: &PagedMap<u8, u32>) -> BTreeMap<u8, u32> {
        map.iter().map(|(k, v)| (*k, *v)).collect()
    }

    proptest! {
        /// It does what a `BTreeMap` does, and a copy never changes with the original.
        #[test]
        fn paged_map_behaves_as_a_sorted_map(ops in prop::collection::vec(op(), 1..600)) {
            let mut map = PagedMap::default();
            let mut model = BTreeMap::new();
            let mut copies = Vec::new();
            for op in ops {
                match op {
                    Op::Insert(k, v) => prop_assert_eq!(map.insert(k, v), model.insert(k, v)),
                    Op::Remove(k) => prop_assert_eq!(map.remove(&k), model.remove(&k)),
                    Op::Change(k, v) => {
                        let found = map.get_mut(&k).map(|value| std::mem::replace(value, v));
                        let expected = model.get_mut(&k).map(|value| std::mem::replace(value, v));
                        prop_assert_eq!(found, expected);
                    }
                    Op::Copy => copies.push((map.clone(), model.clone())),
                }
                prop_assert_eq!(map.len(), model.len());
            }
            copies.push((map, model));
            for (map, model) in &copies {
                prop_assert_eq!(&rows(map), model);
                prop_assert!(map.iter().map(|(k, _)| k).is_sorted());
                for key in 0..=u8::MAX {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
                for key in (0..=u8::MAX).step_by(51) {
                    prop_assert!(map.iter_from(key).eq(model.range(key..)));
                }
                let mut lengths = map.pages.iter().map(|(_, page)| page.len());
                prop_assert!(lengths.all(|length| (1..=PAGE_ROWS_MAX).contains(&length)));
                // The same rows in other pages.
                let mut again = PagedMap::default();
                for (key, value) in model.iter().rev() {
                    again.insert(*key, *value);
                }
                prop_assert_eq!(map, &again);
            }
        }
    }

    #[test]
    fn paged_map_fills_pages_with_rows_in_order() {
        let mut map = PagedMap::default();
        (0..10 * PAGE_ROWS_MAX).for_each(|n| assert!(map.insert(n, ()).is_none()));
        assert_eq!(map.pages.len(), 10);
    }

    /// During a snapshot, applied entries cost one copy of each page they change.
    #[test]
    fn paged_map_copy_shares_unchanged_pages() {
        let mut map = PagedMap::default();
        (0..10 * PAGE_ROWS_MAX).for_each(|n| assert!(map.insert(n, 0).is_none()));
        let copy = map.clone();
        *map.get_mut(&(3 * PAGE_ROWS_MAX)).unwrap() = 1;
        assert!(map.get_mut(&(99 * PAGE_ROWS_MAX)).is_none());
        let pairs = map.pages.iter().zip(&copy.pages);
        let copied = pairs.filter(|((_, a), (_, b))| !Arc::ptr_eq(a, b));
        assert_eq!(copied.count(), 1);
    }
}

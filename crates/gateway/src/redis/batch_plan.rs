//! The commands of a pipeline that one batch executes: as many as possible, but none overtakes
//! another of the same key.
//!
//! Invariant: one batch takes numbers of a key, or reads it, or sets it once. Several commands that
//! take numbers of one key are one item, whose numbers they get in their order. A read of a key
//! from which the batch takes, or the reverse, begins the next batch, which waits for this one.
//! (Items of one call have no order: the answer of an item that waits for its window comes after
//! the answers of those that do not.)

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::key::KeyRef;

use super::key::RedisKey;

/// Maximum groups of one batch: with more, the search for an item's group would take too long. A
/// command above the limit begins the next batch.
pub(super) const NAMESPACE_GROUPS_MAX: usize = 16;

/// Items of one namespace that are all uids or all keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamespaceGroup<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) keys: Vec<KeyRef<'a>>,
    pub(super) counts: Vec<u32>,
}

/// A SET, which becomes a RaiseTo.
#[derive(Debug)]
pub(super) struct RaiseStep<'a> {
    pub(super) key: RedisKey<'a>,
    pub(super) value: u64,
    /// Raises the key only if it has no number.
    pub(super) if_none: bool,
}

/// The requests of one command batch.
#[derive(Debug, Default)]
pub(super) struct BatchPlan<'a> {
    pub(super) takes: Vec<NamespaceGroup<'a>>,
    pub(super) reads: Vec<NamespaceGroup<'a>>,
    pub(super) raises: Vec<RaiseStep<'a>>,
    /// One entry a key; the key itself is in its request.
    uses: HashTable<UsedKey>,
    hash_builder: DefaultHashBuilder,
    /// Items for which the first group allocates memory.
    first_group_capacity: usize,
}

/// A key that a batch uses, by its hash.
#[derive(Clone, Copy, Debug)]
struct UsedKey {
    hash: u64,
    key_use: KeyUse,
}

/// The use that a batch makes of a key.
#[derive(Clone, Copy, Debug)]
enum KeyUse {
    Take(ItemPosition),
    Read(ItemPosition),
    /// The index of its raise.
    Raise(u32),
}

/// The position of an item: its group and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemPosition {
    pub(super) group: u32,
    pub(super) index: u32,
}

impl<'a> BatchPlan<'a> {
    /// Creates a plan with capacity for `items` items.
    pub(super) fn with_capacity(items: usize) -> BatchPlan<'a> {
        BatchPlan {
            uses: HashTable::with_capacity(items),
            first_group_capacity: items,
            ..BatchPlan::default()
        }
    }

    /// Returns the number of its items.
    pub(super) fn item_count(&self) -> usize {
        self.uses.len()
    }

    /// Adds a take of `count` numbers. Returns their item, and how many of the item's numbers this
    /// take and the earlier ones use. None: the take belongs to the next batch.
    pub(super) fn try_add_take(
        &mut self,
        key: &RedisKey<'a>,
        count: u32,
    ) -> Option<(ItemPosition, u32)> {
        let hash = self.hash_builder.hash_one(key);
        match self.find_use(hash, key) {
            None => {
                let item = add_item(&mut self.takes, self.first_group_capacity, key, count)?;
                self.insert_use(hash, KeyUse::Take(item));
                Some((item, count))
            }
            Some(KeyUse::Take(item)) => {
                let sum = &mut self.takes[item.group as usize].counts[item.index as usize];
                *sum = sum.checked_add(count).filter(|sum| *sum <= COUNT_MAX)?;
                Some((item, *sum))
            }
            Some(KeyUse::Read(_) | KeyUse::Raise(_)) => None,
        }
    }

    /// Adds a read of the current number. None: the read belongs to the next batch.
    pub(super) fn try_add_read(&mut self, key: &RedisKey<'a>) -> Option<ItemPosition> {
        let hash = self.hash_builder.hash_one(key);
        match self.find_use(hash, key) {
            None => {
                let item = add_item(&mut self.reads, self.first_group_capacity, key, 0)?;
                self.insert_use(hash, KeyUse::Read(item));
                Some(item)
            }
            Some(KeyUse::Read(item)) => Some(item),
            Some(KeyUse::Take(_) | KeyUse::Raise(_)) => None,
        }
    }

    /// Adds a raise. False: the raise belongs to the next batch.
    pub(super) fn try_add_raise(&mut self, raise: RaiseStep<'a>) -> bool {
        let hash = self.hash_builder.hash_one(raise.key);
        let is_new = self.find_use(hash, &raise.key).is_none();
        if is_new {
            self.insert_use(hash, KeyUse::Raise(self.raises.len() as u32));
            self.raises.push(raise);
        }
        is_new
    }

    fn find_use(&self, hash: u64, key: &RedisKey<'a>) -> Option<KeyUse> {
        let is_same = |used: &UsedKey| used.hash == hash && self.key_of(used.key_use) == *key;
        self.uses.find(hash, is_same).map(|used| used.key_use)
    }

    fn insert_use(&mut self, hash: u64, key_use: KeyUse) {
        let used = UsedKey { hash, key_use };
        self.uses.insert_unique(hash, used, |used| used.hash);
    }

    fn key_of(&self, key_use: KeyUse) -> RedisKey<'a> {
        match key_use {
            KeyUse::Take(item) => self.takes[item.group as usize].key(item),
            KeyUse::Read(item) => self.reads[item.group as usize].key(item),
            KeyUse::Raise(index) => self.raises[index as usize].key,
        }
    }
}

impl<'a> NamespaceGroup<'a> {
    /// Returns the key of one of its items.
    pub(super) fn key(&self, item: ItemPosition) -> RedisKey<'a> {
        RedisKey {
            namespace: self.namespace,
            key: self.keys[item.index as usize],
        }
    }
}

/// Adds an item. None: there are as many groups as allowed. The first group gets capacity for
/// `items` items.
fn add_item<'a>(
    groups: &mut Vec<NamespaceGroup<'a>>,
    items: usize,
    key: &RedisKey<'a>,
    count: u32,
) -> Option<ItemPosition> {
    let is_same_group = |group: &NamespaceGroup<'_>| {
        let kind = group.keys.first().map(std::mem::discriminant);
        group.namespace == key.namespace && kind == Some(std::mem::discriminant(&key.key))
    };
    // Usually there is one group.
    let group = match groups.iter().position(is_same_group) {
        Some(group) => group,
        None if groups.len() == NAMESPACE_GROUPS_MAX => return None,
        None => {
            let items = if groups.is_empty() { items } else { 0 };
            groups.push(NamespaceGroup {
                namespace: key.namespace,
                keys: Vec::with_capacity(items),
                counts: Vec::with_capacity(items),
            });
            groups.len() - 1
        }
    };
    let target = &mut groups[group];
    target.keys.push(key.key);
    target.counts.push(count);
    Some(ItemPosition {
        group: group as u32,
        index: target.keys.len() as u32 - 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_key(key: &str) -> RedisKey<'_> {
        RedisKey::parse(key.as_bytes()).unwrap()
    }

    fn raise_of(key: &str) -> RaiseStep<'_> {
        RaiseStep {
            key: parse_key(key),
            value: 7,
            if_none: false,
        }
    }

    #[test]
    fn batch_plan_uses_a_key_in_one_way() {
        let mut plan = BatchPlan::default();
        let first = ItemPosition { group: 0, index: 0 };
        assert_eq!(plan.try_add_take(&parse_key("a"), 1), Some((first, 1)));
        assert_eq!(
            plan.try_add_take(&parse_key("b"), 5),
            Some((ItemPosition { group: 0, index: 1 }, 5))
        );
        assert_eq!(plan.try_add_take(&parse_key("a"), 10), Some((first, 11)));
        assert_eq!(plan.try_add_read(&parse_key("a")), None);
        assert!(!plan.try_add_raise(raise_of("a")));
        assert_eq!(
            plan.try_add_take(&parse_key("a"), COUNT_MAX),
            None,
            "two items of one key"
        );
        assert_eq!(plan.try_add_read(&parse_key("c")), Some(first));
        assert_eq!(plan.try_add_read(&parse_key("c")), Some(first));
        assert_eq!(plan.try_add_take(&parse_key("c"), 1), None);
        assert!(plan.try_add_raise(raise_of("d")) && !plan.try_add_raise(raise_of("d")));
        assert_eq!(
            (
                plan.try_add_take(&parse_key("d"), 1),
                plan.try_add_read(&parse_key("d"))
            ),
            (None, None)
        );
        assert_eq!(plan.takes[0].counts, [11, 5]);
    }

    #[test]
    fn batch_plan_groups_by_namespace_and_kind() {
        let names: Vec<String> = (0..20).map(|n| format!("@other{n}/1")).collect();
        let mut plan = BatchPlan::default();
        for (key, group) in [
            ("1", 0),
            ("@n/1", 1),
            ("@n/x", 2),
            ("@m/1", 3),
            ("@n/2", 1),
            ("2", 0),
        ] {
            assert_eq!(
                plan.try_add_take(&parse_key(key), 1).unwrap().0.group,
                group,
                "{key}"
            );
        }
        let taken = names
            .iter()
            .filter(|name| plan.try_add_take(&parse_key(name), 1).is_some());
        assert_eq!(taken.count(), NAMESPACE_GROUPS_MAX - 4);
    }
}

//! The commands of a pipeline that are executed in one go: as many as possible, but none overtakes
//! another of the same key.
//!
//! Invariant: in one go a key is taken from, or read, or set once. Several commands that take are
//! one item, whose numbers are dealt out in their order; a read of a key that was taken from, or
//! the reverse, begins the next go, which waits for this one. (Items of one call are in no order:
//! one that waits for its window is answered after those that do not.)

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use seqsvr_core::geometry::COUNT_MAX;

use super::place::{Key, Place};

/// Most groups of one go: with more, the search for an item's group would take too long.
pub(super) const GROUPS_MAX: usize = 16;

/// Items of one namespace that are all uids or all keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Group<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) keys: Vec<Key<'a>>,
    pub(super) counts: Vec<u32>,
}

/// The requests of one go.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) takes: Vec<Group<'a>>,
    pub(super) reads: Vec<Group<'a>>,
    uses: HashMap<Place<'a>, Use>,
    /// Items for which the first group has room.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Taken(Item),
    Read(Item),
    Set,
}

/// The place of an item: its group and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) group: u32,
    pub(super) item: u32,
}

impl<'a> Plan<'a> {
    /// Creates a plan with room for so many items.
    pub(super) fn with_capacity(items: usize) -> Plan<'a> {
        Plan {
            uses: HashMap::with_capacity(items),
            room: items,
            ..Plan::default()
        }
    }

    /// Returns the number of its items.
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    /// Adds a take of so many numbers; returns their item, and up to which of its numbers they are.
    /// None: it belongs to the next go.
    pub(super) fn take(&mut self, place: Place<'a>, count: u32) -> Option<(Item, u32)> {
        match self.uses.entry(place) {
            Entry::Vacant(free) => {
                let item = add(&mut self.takes, self.room, place, count)?;
                free.insert(Use::Taken(item));
                Some((item, count))
            }
            Entry::Occupied(used) => match used.get() {
                Use::Taken(item) => {
                    let sum = &mut self.takes[item.group as usize].counts[item.item as usize];
                    let more = sum.checked_add(count).filter(|sum| *sum <= COUNT_MAX)?;
                    *sum = more;
                    Some((*item, more))
                }
                Use::Read(_) | Use::Set => None,
            },
        }
    }

    /// Adds a read of the current number. None: it belongs to the next go.
    pub(super) fn read(&mut self, place: Place<'a>) -> Option<Item> {
        match self.uses.entry(place) {
            Entry::Vacant(free) => {
                let item = add(&mut self.reads, self.room, place, 0)?;
                free.insert(Use::Read(item));
                Some(item)
            }
            Entry::Occupied(used) => match used.get() {
                Use::Read(item) => Some(*item),
                Use::Taken(_) | Use::Set => None,
            },
        }
    }

    /// Adds a set; returns whether the key may be set in this go.
    pub(super) fn set(&mut self, place: Place<'a>) -> bool {
        match self.uses.entry(place) {
            Entry::Vacant(free) => {
                free.insert(Use::Set);
                true
            }
            Entry::Occupied(_) => false,
        }
    }
}

/// Adds an item. None: there are as many groups as allowed. The first has room for so many items.
fn add<'a>(
    groups: &mut Vec<Group<'a>>,
    items: usize,
    place: Place<'a>,
    count: u32,
) -> Option<Item> {
    let same = |group: &Group<'_>| {
        let kind = group.keys.first().map(std::mem::discriminant);
        group.namespace == place.namespace && kind == Some(std::mem::discriminant(&place.key))
    };
    // Mostly there is one.
    let group = match groups.iter().position(same) {
        Some(group) => group,
        None if groups.len() == GROUPS_MAX => return None,
        None => {
            let items = if groups.is_empty() { items } else { 0 };
            groups.push(Group {
                namespace: place.namespace,
                keys: Vec::with_capacity(items),
                counts: Vec::with_capacity(items),
            });
            groups.len() - 1
        }
    };
    let into = &mut groups[group];
    into.keys.push(place.key);
    into.counts.push(count);
    Some(Item {
        group: group as u32,
        item: into.keys.len() as u32 - 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Place<'_> {
        Place::of(key.as_bytes()).unwrap()
    }

    #[test]
    fn a_key_is_asked_for_one_thing_in_one_go() {
        let mut plan = Plan::default();
        let first = Item { group: 0, item: 0 };
        assert_eq!(plan.take(place("a"), 1), Some((first, 1)));
        assert_eq!(
            plan.take(place("b"), 5),
            Some((Item { group: 0, item: 1 }, 5))
        );
        assert_eq!(plan.take(place("a"), 10), Some((first, 11)));
        assert_eq!(plan.read(place("a")), None);
        assert!(!plan.set(place("a")));
        assert_eq!(
            plan.take(place("a"), COUNT_MAX),
            None,
            "two items of one key"
        );
        assert_eq!(plan.read(place("c")), Some(first));
        assert_eq!(plan.read(place("c")), Some(first));
        assert_eq!(plan.take(place("c"), 1), None);
        assert!(plan.set(place("d")) && !plan.set(place("d")));
        assert_eq!(
            (plan.take(place("d"), 1), plan.read(place("d"))),
            (None, None)
        );
        assert_eq!(plan.takes[0].counts, [11, 5]);
    }

    #[test]
    fn namespaces_uids_and_keys_are_apart() {
        let names: Vec<String> = (0..20).map(|n| format!("@other{n}/1")).collect();
        let mut plan = Plan::default();
        for (key, group) in [
            ("1", 0),
            ("@n/1", 1),
            ("@n/x", 2),
            ("@m/1", 3),
            ("@n/2", 1),
            ("2", 0),
        ] {
            assert_eq!(plan.take(place(key), 1).unwrap().0.group, group, "{key}");
        }
        let taken = names
            .iter()
            .filter(|name| plan.take(place(name), 1).is_some());
        assert_eq!(taken.count(), GROUPS_MAX - 4);
    }
}

//! Splitting items into requests: each holds items of one owner and one kind of key.

use seqsvr_proto::limits::NUMBERS_MAX;

use crate::attempt::attempt_error::AttemptError;
use crate::batch_item::BatchItem;
use crate::call::batch::owner_batch::OwnerBatch;
use crate::call::sequence_call::{SequenceCall, is_keyed};
use crate::client_core::OwnerTable;
use crate::error::Error;
use crate::routing::locate::{find_namespace, locate_in};

/// Items by where they go. An index is that of an item in its call.
pub(super) struct OwnerSplit {
    /// Requests. Full ones come first.
    pub(super) batches: Vec<OwnerBatch>,
    /// Items that no request may hold.
    pub(super) invalid: Vec<(u32, Error)>,
    /// Items for which the table has no place.
    pub(super) unlocated: Vec<(u32, AttemptError)>,
}

/// Splits the items with these indexes by owner, by kind of key (kinds do not mix in a request) and
/// by the limits of a request.
pub(super) fn split_by_owner<C: SequenceCall>(
    snapshot: &OwnerTable,
    namespace: &str,
    items: &[C::Item],
    indexes: &[u32],
    batch_items_max: usize,
) -> OwnerSplit {
    // By owner (the last one: none) and kind of key.
    let owners = snapshot.addresses.len() + 1;
    let mut open_batches: Vec<Option<OwnerBatch>> = (0..2 * owners).map(|_| None).collect();
    // The namespaces of uids and of keys, each looked up once.
    let mut namespaces = [None, None];
    let mut split = OwnerSplit {
        batches: Vec::new(),
        invalid: Vec::new(),
        unlocated: Vec::new(),
    };
    for &i in indexes {
        let item = &items[i as usize];
        if let Err(error) = C::validate(item) {
            split.invalid.push((i, error));
            continue;
        }
        let key = item.key().as_ref();
        let keyed = is_keyed(key);
        let found = namespaces[usize::from(keyed)]
            .get_or_insert_with(|| find_namespace(&snapshot.table, namespace, key));
        let located = match found {
            Ok(namespace) => locate_in(&snapshot.table, namespace, key),
            Err(failure) => Err(failure.clone()),
        };
        let location = match located {
            Ok(location) => location,
            Err(failure) => {
                split.unlocated.push((i, failure));
                continue;
            }
        };
        let owner = snapshot.owner_index(location.slot);
        let open_batch = &mut open_batches[2 * owner.unwrap_or(owners - 1) + usize::from(keyed)];
        let batch = open_batch.get_or_insert_with(|| {
            let capacity = indexes.len().min(batch_items_max);
            OwnerBatch {
                owner,
                items: Vec::with_capacity(capacity),
                slots: Vec::with_capacity(capacity),
                weight: 0,
                keyed,
                stride: location.stride,
            }
        });
        let weight = u64::from(C::count(item));
        if batch.items.len() >= batch_items_max || batch.weight + weight > NUMBERS_MAX {
            let next = batch.new_like();
            split.batches.push(std::mem::replace(batch, next));
        }
        batch.items.push(i);
        batch.slots.push(location.slot);
        batch.weight += weight;
    }
    split.batches.extend(open_batches.into_iter().flatten());
    split
}

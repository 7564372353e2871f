//! The numbers of one key: what calls of a single key, and single commands of other doors, are
//! mostly answered with. The same check as of frames, without the room that only many need.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::id::Epoch;
use seqsvr_core::route::KeyRef;
use seqsvr_core::section::Range;
use seqsvr_proto::convert::namespace_name;

use super::place::{place, with_key};
use super::take::{is_past, raise};
use crate::frame::TakeArgs;
use crate::loaded::LoadedSection;
use crate::node::Node;

impl Node {
    /// Takes the numbers of one key, if memory has them; and the epoch they are of. None: the long
    /// way.
    pub(crate) fn hit_one(
        self: &Arc<Self>,
        namespace: &str,
        key: KeyRef<'_>,
        wanted: TakeArgs,
    ) -> Option<(Range, Epoch)> {
        let table = self.table.guard();
        let session = self.session.load();
        let (table, session) = (table.as_ref()?, session.as_ref()?);
        let namespace = table.namespace(namespace_name(namespace, key))?;
        if namespace.spec.limits.strict
            || wanted.count.get() > namespace.spec.count_max()
            || !self.may_serve()
        {
            return None;
        }
        let (section, index) = place(key, namespace)?;
        let take = |loaded: &LoadedSection| {
            if wanted.epoch > loaded.fence.epoch.0 {
                return None;
            }
            let range = with_key(key, namespace, index, |key| {
                let spot = loaded.section.spot(loaded.section.sought(key)?);
                match spot {
                    _ if !is_past(loaded, spot.as_ref(), wanted.floor) => None,
                    Some(spot) => spot.next(wanted.count).ok(),
                    None => loaded.section.next(key, wanted.count).ok(),
                }
            })?;
            if loaded.wants_raise() {
                raise(self, &self.sections.pin(), loaded);
            }
            Some((range, loaded.fence))
        };
        let mut cache = self.sections.caches.take(session);
        let known = cache.as_deref();
        let (range, fence) = match known.and_then(|cache| cache.get(section, table.version())) {
            Some(loaded) => take(loaded),
            None => {
                let loaded = self.sections.get(section)?;
                let taken = loaded.is_usual(table, session).then(|| take(&loaded))?;
                if let Some(cache) = &mut cache {
                    cache.note(vec![loaded], table.version(), self.sections.len());
                }
                taken
            }
        }?;
        drop(cache);
        // After the numbers were taken: see `hits`.
        let lapsed = !session.serves(self.clock.now());
        if lapsed {
            self.lapsed.store(true, Relaxed);
        }
        let newest = self.table.guard();
        let newest = newest.as_ref().filter(|newest| !Arc::ptr_eq(newest, table));
        let moved = newest.is_some_and(|newest| {
            !session.owns(fence.slot, fence.epoch, newest) || newest.is_strict(namespace)
        });
        let count = u64::from(wanted.count.get());
        if lapsed || moved {
            self.counters.burned.add(count);
            return None;
        }
        self.counters.nexts.add(1);
        self.counters.numbers.add(count);
        Some((range, fence.epoch))
    }
}

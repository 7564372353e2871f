//! The fast path of one key: most single-key calls and single commands of other endpoints are
//! answered here. Same check as for batches, without the memory that only batches need.

use seqsvr_core::ids::Epoch;
use seqsvr_core::key::KeyRef;
use seqsvr_core::section::NumberRange;
use seqsvr_proto::convert::namespace_name;

use super::FastPath;
use super::batch_taker::{is_above_floor, refill_if_due};
use super::key_location::{locate_key, with_section_key};
use crate::batch::request::TakeArgs;
use crate::sections::loaded_section::LoadedSection;
use crate::session::serving_check::{Confirmed, ServingCheck};

impl FastPath {
    /// Takes the numbers of one key, if memory has them, and returns them with their epoch. None:
    /// the slow path serves the request.
    pub(crate) fn try_one(
        &self,
        namespace: &str,
        key: KeyRef<'_>,
        args: TakeArgs,
    ) -> Option<(NumberRange, Epoch)> {
        let table = self.shared.table.peek();
        let session = self.shared.session.peek();
        let (table, session) = (table.as_ref()?, session.as_ref()?);
        let namespace = table.namespace(namespace_name(namespace, key))?;
        if namespace.spec.limits.strict
            || args.count.get() > namespace.spec.count_max()
            || !self.shared.session.may_have_lease()
        {
            return None;
        }
        let (section, index) = locate_key(key, namespace)?;
        let check = ServingCheck::begin(table, session);
        let take_from = |loaded: &LoadedSection| {
            if args.epoch > loaded.fence.epoch.0 {
                return None;
            }
            let range = with_section_key(key, namespace, index, |key| {
                let spot = loaded
                    .section
                    .find_counter(loaded.section.prepare_lookup(key)?);
                match spot {
                    _ if !is_above_floor(loaded, spot.as_ref(), args.floor) => None,
                    Some(spot) => spot.next(args.count).ok(),
                    None => loaded.section.next(key, args.count).ok(),
                }
            })?;
            if loaded.should_raise() {
                refill_if_due(&self.refiller, &self.sections.pin(), loaded);
            }
            Some((range, loaded.fence))
        };
        let mut cache = self.sections.caches.try_acquire(session);
        let cached = cache.as_deref();
        let (range, fence) = match cached.and_then(|cache| cache.find(section, table.version())) {
            Some(loaded) => take_from(loaded),
            None => {
                let loaded = self.sections.get(section)?;
                let taken = loaded.is_current_in(&check).then(|| take_from(&loaded))?;
                if let Some(cache) = &mut cache {
                    cache.insert_found(vec![loaded], table.version(), self.sections.len());
                }
                taken
            }
        }?;
        drop(cache);
        let may_answer = match check.confirm(&self.shared.session, &self.shared.table) {
            Confirmed::All => true,
            Confirmed::TableChanged(newest) => {
                session.is_owner_of(fence.slot, fence.epoch, &newest)
                    && !newest.is_strict(namespace)
            }
            Confirmed::LeaseLost => false,
        };
        let count = u64::from(args.count.get());
        if !may_answer {
            self.shared.counters.numbers_discarded.add(count);
            return None;
        }
        self.shared.counters.next_items.add(1);
        self.shared.counters.numbers_issued.add(count);
        Some((range, fence.epoch))
    }
}

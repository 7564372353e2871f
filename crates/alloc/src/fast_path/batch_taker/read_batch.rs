//! Reads the numbers of a batch of Current. No number is taken, so items that fail the check are
//! read again on the slow path.

use seqsvr_core::namespace::Namespace;
use seqsvr_proto::v1::CurrentKind;

use super::super::key_location::{locate_key, with_section_key};
use super::super::{FastPathResult, NEW_KEYS_MAX};
use super::BatchTaker;
use crate::batch::item::ItemAnswer;
use crate::batch::request::BatchRequest;

impl BatchTaker<'_> {
    /// Reads the numbers of a batch of Current, with at most `missed_max` misses.
    pub(in crate::fast_path) fn read_batch(
        &mut self,
        batch: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
    ) -> FastPathResult {
        let mut result = FastPathResult::with_capacity(batch.len());
        let mut new_keys = 0;
        for i in 0..batch.len() {
            if result.missed.len() >= missed_max {
                result.missed.extend(i as u32..batch.len() as u32);
                break;
            }
            let read = locate_key(batch.key_at(i), namespace).and_then(|(section, index)| {
                let loaded = self
                    .find_section(section)
                    .filter(|_| new_keys < NEW_KEYS_MAX)?;
                let is_epoch_known = batch.epoch_at(i) <= loaded.fence.epoch.0;
                let (kind, value) = with_section_key(batch.key_at(i), namespace, index, |key| {
                    is_epoch_known.then(|| loaded.read_current(key, namespace))
                })??;
                new_keys += usize::from(kind != CurrentKind::Exact);
                Some((kind, value, loaded.fence.epoch))
            });
            match read {
                Some((kind, value, epoch)) => {
                    let answer = ItemAnswer::Current { kind, value, epoch };
                    result.answers.push_answer(&Ok(answer));
                }
                None => result.missed.push(i as u32),
            }
        }
        result
    }
}

//! Reading the numbers of a frame of Current: nothing is taken, so what fails the check is only
//! asked again.

use seqsvr_core::namespace::Namespace;
use seqsvr_proto::v1::CurrentKind;

use super::place::{place, with_key};
use super::take::BatchTaker;
use super::{FastPathResult, UNTOUCHED_MAX};
use crate::ask::ItemAnswer;
use crate::frame::BatchRequest;

impl BatchTaker<'_> {
    /// Reads the numbers of a frame of Current, of which so many items may be looked for in vain.
    pub(super) fn current(
        &mut self,
        frame: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
    ) -> FastPathResult {
        let mut hits = FastPathResult::for_items(frame.len());
        let mut untouched = 0;
        for i in 0..frame.len() {
            if hits.missed.len() >= missed_max {
                hits.missed.extend(i as u32..frame.len() as u32);
                break;
            }
            let found = place(frame.key(i), namespace).and_then(|(section, index)| {
                let loaded = self.find(section).filter(|_| untouched < UNTOUCHED_MAX)?;
                let known = frame.epoch(i) <= loaded.fence.epoch.0;
                let (kind, value) = with_key(frame.key(i), namespace, index, |key| {
                    known.then(|| loaded.current(key, namespace))
                })??;
                untouched += usize::from(kind != CurrentKind::Exact);
                Some((kind, value, loaded.fence.epoch))
            });
            match found {
                Some((kind, value, epoch)) => {
                    let answer = ItemAnswer::Current { kind, value, epoch };
                    hits.columns.push(&Ok(answer));
                }
                None => hits.missed.push(i as u32),
            }
        }
        hits
    }
}

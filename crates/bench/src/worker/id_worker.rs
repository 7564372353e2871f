//! One caller that takes ids of a family through the SDK: one call after the other, each verified
//! and measured.
//!
//! What is verified are positions: tick x numbers of a tick + number. Those of a worker are keys of
//! the run, so each position is new, and greater than those received before its call.

use std::sync::Arc;

use seqsvr_client::{Error, FamilyHandle, IssuedRange};
use tokio::time::Instant;

use crate::answers::AnsweredItem;
use crate::call_recorder::{CallRecorder, CallTally};
use crate::run_state::CallItems;

/// One caller, with one call in flight at a time.
pub(crate) struct IdWorker {
    pub(crate) recorder: CallRecorder,
    pub(crate) family: Arc<FamilyHandle>,
    /// Index of the caller.
    pub(crate) caller: usize,
    /// Workers whose positions the last call has; the memory is reused.
    pub(crate) items: CallItems,
}

impl IdWorker {
    /// Makes calls until the run is over.
    ///
    /// # Errors
    /// The history cannot be written.
    pub(crate) async fn run(mut self) -> Result<(), seqsvr_check::Error> {
        let run = self.recorder.run.clone();
        let mut now = Instant::now();
        while let Some(due) = run.pacer.wait_until_due(now).await {
            let mut tally = CallTally::default();
            let begin = self.recorder.begin_call(self.caller, due);
            let mut runs = Vec::with_capacity(1);
            self.items.keys.clear();
            let answered = match run.batch {
                1 => self
                    .family
                    .next()
                    .await
                    .and_then(|id| self.add_ids(&[id], &mut runs)),
                count => match self.family.many(count).await {
                    Ok(ids) => self.add_ids(&ids, &mut runs),
                    Err(error) => Err(error),
                },
            };
            now = Instant::now();
            let failed = answered.err().map(|error| {
                self.items.keys.push(0);
                Err(error)
            });
            let answers = runs.into_iter().map(|run| Ok(AnsweredItem::Numbers(run)));
            let answers = answers.chain(failed);
            self.recorder
                .record_answers(&self.items, answers, begin, now, &mut tally)?;
            self.recorder.end_call(self.caller, due, now, tally);
        }
        self.recorder.retire_caller(self.caller);
        Ok(())
    }

    /// Adds the runs of positions that these ids are, with the worker of each.
    ///
    /// # Errors
    /// A number is no id of the family.
    #[inline]
    fn add_ids(&mut self, ids: &[u64], runs: &mut Vec<IssuedRange>) -> Result<(), Error> {
        let codec = self.family.scheme().codec();
        let capacity = u64::from(codec.max_parts().seq) + 1;
        for &id in ids {
            let parts = self.family.decode(id)?.parts;
            let position = parts.tick * capacity + u64::from(parts.seq);
            match (runs.last_mut(), self.items.keys.last()) {
                (Some(run), Some(worker))
                    if *worker == parts.worker && run.last + 1 == position =>
                {
                    run.last = position;
                }
                _ => {
                    self.items.keys.push(parts.worker);
                    runs.push(IssuedRange {
                        first: position,
                        last: position,
                        epoch: 0,
                        stride: 1,
                    });
                }
            }
        }
        Ok(())
    }
}

//! The loaded sections as a whole. A walk over all of them: for whoever asks now and then, on a
//! thread where nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use crate::loaded::LoadedSection;

/// Sums over loaded sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionTotals {
    pub(crate) sections: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: u64,
    /// Numbers that may be handed out without asking the store.
    pub(crate) left: u64,
    /// Of the section that has the fewest; 0 without sections.
    pub(crate) left_min: u64,
    /// Sections of which little is left.
    pub(crate) low: u64,
    /// Greatest max_seq of a section.
    pub(crate) max_seq: u64,
}

impl SectionTotals {
    pub(crate) fn of<'a>(sections: impl Iterator<Item = &'a Arc<LoadedSection>>) -> SectionTotals {
        let mut all = SectionTotals::default();
        let mut left_min = None;
        for loaded in sections {
            let left = loaded.section.left();
            all.sections += 1;
            all.keys += loaded.section.touched();
            all.bytes += loaded.section.bytes() as u64;
            all.waiting += u64::from(loaded.waiting.load(Acquire));
            all.left = all.left.saturating_add(left);
            left_min = Some(left_min.unwrap_or(left).min(left));
            all.low += u64::from(loaded.is_low());
            all.max_seq = all.max_seq.max(loaded.section.max_seq());
        }
        all.left_min = left_min.unwrap_or(0);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use seqsvr_core::section::Key;

    use super::*;
    use crate::idle::tests::loaded;

    #[test]
    fn sums_and_what_is_low() {
        assert_eq!(SectionTotals::of([].iter()), SectionTotals::default());
        let all = [loaded(0, 10), loaded(1, 10), loaded(2, 10)];
        let take = |at: usize, key, n| {
            let taken = all[at]
                .section
                .next(Key::Dense(key), NonZeroU32::new(n).unwrap());
            taken.unwrap();
        };
        // Windows of 1,000 and steps of 10.
        take(0, 3, 1_000);
        take(0, 4, 5);
        take(1, 0, 999);
        let survey = SectionTotals::of(all.iter());
        assert_eq!((survey.sections, survey.keys), (3, 3));
        assert_eq!(survey.max_seq, 1_000);
        assert_eq!((survey.left, survey.left_min, survey.low), (1_001, 0, 1));
    }
}

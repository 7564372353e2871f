//! The loaded sections as a whole. A walk over all of them: for whoever asks now and then, on a
//! thread where nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use crate::sections::loaded_section::LoadedSection;

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
    pub(crate) fn from_sections<'a>(
        sections: impl Iterator<Item = &'a Arc<LoadedSection>>,
    ) -> SectionTotals {
        let mut totals = SectionTotals::default();
        let mut left_min = None;
        for loaded in sections {
            let left = loaded.section.left();
            totals.sections += 1;
            totals.keys += loaded.section.touched();
            totals.bytes += loaded.section.bytes() as u64;
            totals.waiting += u64::from(loaded.waiter_count.load(Acquire));
            totals.left = totals.left.saturating_add(left);
            left_min = Some(left_min.unwrap_or(left).min(left));
            totals.low += u64::from(loaded.is_low());
            totals.max_seq = totals.max_seq.max(loaded.section.max_seq());
        }
        totals.left_min = left_min.unwrap_or(0);
        totals
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use seqsvr_core::section::Key;

    use super::*;
    use crate::sections::evictor::tests::test_section;

    #[test]
    fn section_totals_sum_and_count_low_windows() {
        assert_eq!(
            SectionTotals::from_sections([].iter()),
            SectionTotals::default()
        );
        let all = [
            test_section(0, 10),
            test_section(1, 10),
            test_section(2, 10),
        ];
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
        let totals = SectionTotals::from_sections(all.iter());
        assert_eq!((totals.sections, totals.keys), (3, 3));
        assert_eq!(totals.max_seq, 1_000);
        assert_eq!((totals.left, totals.left_min, totals.low), (1_001, 0, 1));
    }
}

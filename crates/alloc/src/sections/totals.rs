//! Totals over the loaded sections, and the busiest of them. Each is a walk over all sections, for
//! operators, on a thread on which no call waits.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::v1::HotSection;

use crate::sections::loaded_section::LoadedSection;

/// Maximum sections in the list of the busiest; above it the slower ones are left out.
const TOP_SECTIONS_MAX: usize = 10;

/// Sums over loaded sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionTotals {
    pub(crate) sections: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: u64,
    /// Numbers that may be handed out without a request to the store.
    pub(crate) left: u64,
    /// Numbers left in the section with the fewest; 0 without sections.
    pub(crate) left_min: u64,
    /// Number of sections of which little is left.
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
            let left = loaded.section.numbers_remaining();
            totals.sections += 1;
            totals.keys += loaded.section.keys_in_memory();
            totals.bytes += loaded.section.memory_bytes() as u64;
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

/// Returns the busiest of these sections, in order.
pub(crate) fn top_sections(
    sections: &[Arc<LoadedSection>],
    table: Option<&RoutingTable>,
) -> Vec<HotSection> {
    let rated = sections
        .iter()
        .map(|l| (l.rate_meter.numbers_per_second(), l));
    let mut moving: Vec<_> = rated.filter(|(rate, _)| *rate > 0).collect();
    let order = |a: &(u64, &Arc<LoadedSection>), b: &(u64, &Arc<LoadedSection>)| {
        (b.0.cmp(&a.0)).then_with(|| a.1.key().cmp(&b.1.key()))
    };
    if moving.len() > TOP_SECTIONS_MAX {
        moving.select_nth_unstable_by(TOP_SECTIONS_MAX, order);
        moving.truncate(TOP_SECTIONS_MAX);
    }
    moving.sort_unstable_by(order);
    let top = moving.into_iter().map(|(numbers_per_second, loaded)| {
        let key = loaded.key();
        let namespace = table.and_then(|t| t.namespace_by_id(key.namespace));
        HotSection {
            namespace: namespace.map_or_else(String::new, |n| n.spec.name.clone()),
            section: key.section.0,
            slot: u32::from(loaded.fence.slot.0),
            window_remaining: loaded.section.numbers_remaining(),
            numbers_per_second,
            keys_in_memory: loaded.section.keys_in_memory(),
        }
    });
    top.collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use seqsvr_core::section::CounterKey;
    use tokio::time::Instant;

    use super::*;
    use crate::sections::test_util::test_section;

    #[test]
    fn top_sections_are_the_ten_fastest_in_order() {
        let begin = Instant::now();
        let all: Vec<_> = (0..15).map(|n| test_section(n, 100)).collect();
        for one in &all {
            one.rate_meter.sample(begin, one.section.highest_offset());
        }
        assert!(top_sections(&all, None).is_empty(), "nothing was taken");
        for (n, one) in (0..).zip(&all) {
            if let Some(count) = NonZeroU32::new(n) {
                one.section.next(CounterKey::Dense(0), count).unwrap();
            }
            let now = begin + Duration::from_secs(1);
            one.rate_meter.sample(now, one.section.highest_offset());
        }
        let top = top_sections(&all, None);
        let rates: Vec<_> = top
            .iter()
            .map(|h| (h.section, h.numbers_per_second))
            .collect();
        let wanted: Vec<_> = (5..15).rev().map(|n| (n, u64::from(n))).collect();
        assert_eq!(rates, wanted);
        assert_eq!(
            (top[0].window_remaining, top[0].keys_in_memory),
            (1_000 - 14, 1)
        );
    }

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
                .next(CounterKey::Dense(key), NonZeroU32::new(n).unwrap());
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

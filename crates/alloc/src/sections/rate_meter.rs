//! The sections whose furthest counter goes on fastest, for operators. What watches the memory
//! budget looks at every section now and then: that is enough, and costs the hot path nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::v1::HotSection;
use tokio::time::Instant;

use crate::sections::loaded_section::LoadedSection;

/// Most sections told.
const TOP_SECTIONS_MAX: usize = 10;

/// How fast a section's furthest counter went on between the last two looks.
#[derive(Default)]
pub(crate) struct RateMeter(Mutex<RateSample>);

#[derive(Default)]
struct RateSample {
    sampled_at: Option<Instant>,
    highest: u64,
    per_second: u64,
}

impl RateMeter {
    /// Notes where the furthest counter stands.
    pub(crate) fn sample(&self, now: Instant, highest: u64) {
        let mut last = self.0.lock();
        let advanced = highest.saturating_sub(last.highest);
        // The first look knows no time before it.
        let elapsed = last
            .sampled_at
            .map(|at| (now - at).as_secs_f64().max(0.001));
        *last = RateSample {
            sampled_at: Some(now),
            highest,
            per_second: elapsed.map_or(0, |s| (advanced as f64 / s).ceil() as u64),
        };
    }

    /// A RaiseTo moved the furthest counter: those numbers were not taken.
    pub(crate) fn record_jump(&self, highest: u64) {
        self.0.lock().highest = highest;
    }

    fn per_second(&self) -> u64 {
        self.0.lock().per_second
    }
}

/// The hottest of these sections, those first.
pub(crate) fn top_sections(
    sections: &[Arc<LoadedSection>],
    table: Option<&RoutingTable>,
) -> Vec<HotSection> {
    let rated = sections.iter().map(|l| (l.rate_meter.per_second(), l));
    let mut moving: Vec<_> = rated.filter(|(rate, _)| *rate > 0).collect();
    let order = |a: &(u64, &Arc<LoadedSection>), b: &(u64, &Arc<LoadedSection>)| {
        (b.0.cmp(&a.0)).then_with(|| a.1.key().cmp(&b.1.key()))
    };
    if moving.len() > TOP_SECTIONS_MAX {
        moving.select_nth_unstable_by(TOP_SECTIONS_MAX, order);
        moving.truncate(TOP_SECTIONS_MAX);
    }
    moving.sort_unstable_by(order);
    let top = moving.into_iter().map(|(per_second, loaded)| {
        let key = loaded.key();
        let namespace = table.and_then(|t| t.namespace_by_id(key.namespace));
        HotSection {
            namespace: namespace.map_or_else(String::new, |n| n.spec.name.clone()),
            section: key.section.0,
            slot: u32::from(loaded.fence.slot.0),
            window_left: loaded.section.left(),
            per_second,
            keys_touched: loaded.section.touched(),
        }
    });
    top.collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use seqsvr_core::section::Key;

    use super::*;
    use crate::sections::evictor::tests::test_section;

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
                one.section.next(Key::Dense(0), count).unwrap();
            }
            let now = begin + Duration::from_secs(1);
            one.rate_meter.sample(now, one.section.highest_offset());
        }
        let top = top_sections(&all, None);
        let rates: Vec<_> = top.iter().map(|h| (h.section, h.per_second)).collect();
        let wanted: Vec<_> = (5..15).rev().map(|n| (n, u64::from(n))).collect();
        assert_eq!(rates, wanted);
        assert_eq!((top[0].window_left, top[0].keys_touched), (1_000 - 14, 1));
    }

    #[test]
    fn rate_meter_ignores_jumps_and_falls_without_use() {
        let rate_meter = RateMeter::default();
        let at = |s| Instant::now() + Duration::from_secs(s);
        rate_meter.sample(at(0), 5_000);
        assert_eq!(
            rate_meter.per_second(),
            0,
            "the first look knows no time before it"
        );
        rate_meter.record_jump(1_000_000);
        rate_meter.sample(at(2), 1_000_100);
        assert!((45..=55).contains(&rate_meter.per_second()));
        rate_meter.sample(at(4), 1_000_100);
        assert_eq!(rate_meter.per_second(), 0);
    }
}

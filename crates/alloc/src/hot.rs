//! The sections whose furthest counter goes on fastest, for operators. What watches the memory
//! budget looks at every section now and then: that is enough, and costs the hot path nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::v1::HotSection;
use tokio::time::Instant;

use crate::loaded::LoadedSection;

/// Most sections told.
const HOTTEST: usize = 10;

/// How fast a section's furthest counter went on between the last two looks.
#[derive(Default)]
pub(crate) struct RateMeter(Mutex<RateSample>);

#[derive(Default)]
struct RateSample {
    at: Option<Instant>,
    highest: u64,
    per_second: u64,
}

impl RateMeter {
    /// Notes where the furthest counter stands.
    pub(crate) fn look(&self, now: Instant, highest: u64) {
        let mut last = self.0.lock();
        let gone = highest.saturating_sub(last.highest);
        // The first look knows no time before it.
        let elapsed = last.at.map(|at| (now - at).as_secs_f64().max(0.001));
        *last = RateSample {
            at: Some(now),
            highest,
            per_second: elapsed.map_or(0, |s| (gone as f64 / s).ceil() as u64),
        };
    }

    /// A RaiseTo moved the furthest counter: those numbers were not taken.
    pub(crate) fn jumped(&self, highest: u64) {
        self.0.lock().highest = highest;
    }

    fn per_second(&self) -> u64 {
        self.0.lock().per_second
    }
}

/// The hottest of these sections, those first.
pub(crate) fn hottest(
    sections: &[Arc<LoadedSection>],
    table: Option<&RoutingTable>,
) -> Vec<HotSection> {
    let rated = sections.iter().map(|l| (l.heat.per_second(), l));
    let mut hot: Vec<_> = rated.filter(|(rate, _)| *rate > 0).collect();
    let order = |a: &(u64, &Arc<LoadedSection>), b: &(u64, &Arc<LoadedSection>)| {
        (b.0.cmp(&a.0)).then_with(|| a.1.key().cmp(&b.1.key()))
    };
    if hot.len() > HOTTEST {
        hot.select_nth_unstable_by(HOTTEST, order);
        hot.truncate(HOTTEST);
    }
    hot.sort_unstable_by(order);
    let told = hot.into_iter().map(|(per_second, loaded)| {
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
    told.collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use seqsvr_core::section::Key;

    use super::*;
    use crate::idle::tests::loaded;

    #[test]
    fn those_that_went_furthest_in_the_time_come_first_and_at_most_ten() {
        let begin = Instant::now();
        let all: Vec<_> = (0..15).map(|n| loaded(n, 100)).collect();
        for one in &all {
            one.heat.look(begin, one.section.highest_offset());
        }
        assert!(hottest(&all, None).is_empty(), "nothing was taken");
        for (n, one) in (0..).zip(&all) {
            if let Some(count) = NonZeroU32::new(n) {
                one.section.next(Key::Dense(0), count).unwrap();
            }
            let now = begin + Duration::from_secs(1);
            one.heat.look(now, one.section.highest_offset());
        }
        let told = hottest(&all, None);
        let rates: Vec<_> = told.iter().map(|h| (h.section, h.per_second)).collect();
        let wanted: Vec<_> = (5..15).rev().map(|n| (n, u64::from(n))).collect();
        assert_eq!(rates, wanted);
        assert_eq!((told[0].window_left, told[0].keys_touched), (1_000 - 14, 1));
    }

    #[test]
    fn a_jump_is_no_pace_and_a_pause_cools() {
        let heat = RateMeter::default();
        let at = |s| Instant::now() + Duration::from_secs(s);
        heat.look(at(0), 5_000);
        assert_eq!(
            heat.per_second(),
            0,
            "the first look knows no time before it"
        );
        heat.jumped(1_000_000);
        heat.look(at(2), 1_000_100);
        assert!((45..=55).contains(&heat.per_second()));
        heat.look(at(4), 1_000_100);
        assert_eq!(heat.per_second(), 0);
    }
}

//! The load of the cluster in the last five minutes, from the samples of all AllocSvrs.

use seqsvr_proto::node_status::{LOAD_SAMPLE_INTERVAL, LOAD_SAMPLES_MAX};
use serde_json::{Value, json};

use super::cluster_json::NodeStatuses;

/// Returns the load as columns, newest first: the numbers of all AllocSvrs a second, and the p99 of
/// the slowest one (null: no calls). `age_ms` is the age of the newest sample. An AllocSvr that
/// does not answer is missing in all samples. Null: there is no sample.
pub(super) fn recent_load_json(nodes: &NodeStatuses) -> Value {
    let interval_ms = LOAD_SAMPLE_INTERVAL.as_millis() as u32;
    let mut numbers_per_second = [0_u64; LOAD_SAMPLES_MAX];
    let mut p99_us = [None; LOAD_SAMPLES_MAX];
    let (mut len, mut age_ms) = (0, None::<u32>);
    for (_, node) in nodes {
        let Ok(node) = node else { continue };
        // The samples of two processes are at different times. The newest of each are taken
        // together, because a sample must not change its place from one answer to the next.
        let Some(newest) = node.recent_load.first() else {
            continue;
        };
        age_ms = Some(age_ms.map_or(newest.age_ms, |age| age.min(newest.age_ms)));
        for sample in &node.recent_load {
            let age = sample.age_ms.saturating_sub(newest.age_ms);
            let place = (age.saturating_add(interval_ms / 2) / interval_ms) as usize;
            if place >= LOAD_SAMPLES_MAX {
                break;
            }
            len = len.max(place + 1);
            let numbers = &mut numbers_per_second[place];
            *numbers = numbers.saturating_add(sample.numbers_per_second);
            p99_us[place] = p99_us[place].max(sample.p99_us);
        }
    }
    age_ms.map_or(Value::Null, |age_ms| {
        json!({
            "interval_ms": interval_ms, "age_ms": age_ms,
            "numbers_per_second": numbers_per_second[..len], "p99_us": p99_us[..len],
        })
    })
}

#[cfg(test)]
mod tests {
    use seqsvr_proto::v1::{LoadSample, NodeStatusResponse};

    use super::*;

    fn node(samples: &[(u32, u64, Option<u64>)]) -> (String, Result<NodeStatusResponse, String>) {
        let samples = samples.iter().map(|&(age_ms, numbers, p99_us)| LoadSample {
            age_ms,
            numbers_per_second: numbers,
            p99_us,
        });
        let status = NodeStatusResponse {
            recent_load: samples.collect(),
            ..NodeStatusResponse::default()
        };
        (String::new(), Ok(status))
    }

    #[test]
    fn recent_load_adds_numbers_and_takes_the_slowest_p99() {
        let nodes = vec![
            node(&[(900, 5, None), (2_950, 7, Some(100)), (4_880, 9, None)]),
            (String::new(), Err("no answer".to_owned())),
            node(&[(1_990, 10, Some(3)), (3_995, 20, Some(50))]),
            node(&[]),
        ];
        let expected = json!({
            "interval_ms": 2_000, "age_ms": 900,
            "numbers_per_second": [15, 27, 9], "p99_us": [3, 100, null],
        });
        assert_eq!(recent_load_json(&nodes), expected);
    }

    #[test]
    fn recent_load_of_hostile_ages_and_numbers_is_bounded() {
        let hostile = [(0, u64::MAX, Some(1)), (u32::MAX, u64::MAX, None)];
        let json = recent_load_json(&vec![node(&hostile), node(&hostile)]);
        assert_eq!(json["numbers_per_second"], json!([u64::MAX]));
        assert_eq!(recent_load_json(&vec![node(&[])]), Value::Null);
    }
}

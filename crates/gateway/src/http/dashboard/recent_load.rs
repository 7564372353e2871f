//! The load of the cluster in the last five minutes, from the samples of all AllocSvrs.

use seqsvr_proto::node_status::{LOAD_SAMPLE_INTERVAL, LOAD_SAMPLES_MAX};
use serde_json::{Value, json};

use super::cluster_json::NodeStatuses;

/// Returns the load as columns, newest first: the numbers of all AllocSvrs a second (null: no
/// AllocSvr has a sample), and the p99 of the slowest one (null: no calls). `age_ms` is the age of
/// the newest sample. An AllocSvr that does not answer is missing in all samples. Null: there is no
/// sample.
pub(super) fn recent_load_json(nodes: &NodeStatuses) -> Value {
    let answers = nodes.iter().filter_map(|(_, node)| node.as_ref().ok());
    let loads = answers
        .map(|node| &node.recent_load)
        .filter(|load| !load.is_empty());
    let Some(age_ms) = loads.clone().map(|load| load[0].age_ms).min() else {
        return Value::Null;
    };
    let interval_ms = LOAD_SAMPLE_INTERVAL.as_millis() as u32;
    let mut numbers_per_second = [None::<u64>; LOAD_SAMPLES_MAX];
    let mut p99_us = [None; LOAD_SAMPLES_MAX];
    let mut len = 0;
    for load in loads {
        // The samples of two processes are at different times. The newest of each are taken
        // together, because a sample must not change its place from one answer to the next. A
        // process may be late by half an interval; what is older is not of the newest place.
        let newest_age = load[0].age_ms;
        let behind_ms = newest_age - age_ms;
        let first_place = match behind_ms < interval_ms * 3 / 2 {
            true => 0,
            false => behind_ms / interval_ms,
        };
        let mut last_place = None;
        for sample in load {
            let age = sample.age_ms.saturating_sub(newest_age);
            let place = first_place + age.saturating_add(interval_ms / 2) / interval_ms;
            let place = place as usize;
            if place >= LOAD_SAMPLES_MAX {
                break;
            }
            if last_place.replace(place) == Some(place) {
                continue;
            }
            len = len.max(place + 1);
            let numbers = numbers_per_second[place].unwrap_or_default();
            numbers_per_second[place] = Some(numbers.saturating_add(sample.numbers_per_second));
            p99_us[place] = p99_us[place].max(sample.p99_us);
        }
    }
    json!({
        "interval_ms": interval_ms, "age_ms": age_ms,
        "numbers_per_second": numbers_per_second[..len], "p99_us": p99_us[..len],
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

    /// The second process was stopped for 4 s and has just one sample of this time.
    #[test]
    fn recent_load_without_a_sample_is_null() {
        let stopped = [(900, 5, Some(1)), (6_900, 7, Some(2)), (7_400, 9, Some(9))];
        let json = recent_load_json(&vec![node(&stopped)]);
        assert_eq!(json["numbers_per_second"], json!([5, null, null, 7]));
        assert_eq!(json["p99_us"], json!([1, null, null, 2]));
        let nodes = vec![node(&stopped), node(&[(100, 0, None), (2_100, 1, None)])];
        let json = recent_load_json(&nodes);
        assert_eq!(json["numbers_per_second"], json!([5, 1, null, 7]));
    }

    #[test]
    fn recent_load_that_is_old_is_not_taken_as_now() {
        let old = node(&[(7_400, 5, Some(8)), (9_400, 6, Some(9))]);
        let json = recent_load_json(&vec![old, node(&[(2_900, 1, None), (4_900, 2, Some(3))])]);
        assert_eq!(json["age_ms"], 2_900);
        assert_eq!(json["numbers_per_second"], json!([1, 2, 5, 6]));
        assert_eq!(json["p99_us"], json!([null, 3, 8, 9]));
    }

    #[test]
    fn recent_load_of_hostile_ages_and_numbers_is_bounded() {
        let hostile = [(0, u64::MAX, Some(1)), (u32::MAX, u64::MAX, None)];
        let json = recent_load_json(&vec![node(&hostile), node(&hostile)]);
        assert_eq!(json["numbers_per_second"], json!([u64::MAX]));
        assert_eq!(recent_load_json(&vec![node(&[])]), Value::Null);
    }
}

//! The status of another process, as far as it is shown.
//!
//! Invariant: one server makes the status of a cluster longer by a bounded amount. Schedule that
//! breaks it: a stranger listens at the address of a store that is gone, and answers with as many
//! counters as a message holds; each viewer of the cluster receives them.

use std::time::Duration;

use seqsvr_core::server_address::{check_server_address, is_unspecified_address};

use crate::v1::NodeStatusResponse;

/// Maximum counters of one process; the others are dropped. A server has fewer than 200.
pub const COUNTERS_MAX: usize = 256;
/// Maximum bytes of a name or an address. Counters of longer names are dropped, other texts cut.
pub const TEXT_BYTES_MAX: usize = 256;
/// Maximum hottest sections of one AllocSvr; the others are dropped.
pub const HOTTEST_MAX: usize = 10;
/// Maximum samples of the load of one AllocSvr, which are five minutes; older ones are dropped.
pub const LOAD_SAMPLES_MAX: usize = 150;
/// Time between two samples of the load.
pub const LOAD_SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// Returns what may be shown of a status that another process sent. Of too many counters it has
/// the first in the order of their names. An address of a page that is none is dropped, because
/// readers follow it.
pub fn bound_node_status(mut status: NodeStatusResponse) -> NodeStatusResponse {
    let texts = [
        &mut status.role,
        &mut status.name,
        &mut status.address,
        &mut status.version,
    ];
    texts.into_iter().for_each(cut_text);
    let page = &mut status.http_address;
    if check_server_address(page).is_err() || is_unspecified_address(page) {
        page.clear();
    }
    status.hottest.truncate(HOTTEST_MAX);
    status.recent_load.truncate(LOAD_SAMPLES_MAX);
    for section in &mut status.hottest {
        cut_text(&mut section.namespace);
    }
    status
        .counters
        .retain(|name, _| name.len() <= TEXT_BYTES_MAX);
    if status.counters.len() > COUNTERS_MAX {
        let mut counters: Vec<_> = status.counters.drain().collect();
        counters.sort_unstable();
        status.counters = counters.into_iter().take(COUNTERS_MAX).collect();
    }
    status
}

fn cut_text(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{HotSection, LoadSample};

    #[test]
    fn node_status_of_usual_size_is_unchanged() {
        let status = NodeStatusResponse {
            role: "alloc".into(),
            name: "a1".into(),
            address: "127.0.0.1:7700".into(),
            version: "1.0.0".into(),
            counters: (0..256).map(|n| (format!("counter_{n}"), n)).collect(),
            hottest: vec![HotSection::default(); HOTTEST_MAX],
            incarnation: 7,
            recent_load: vec![LoadSample::default(); LOAD_SAMPLES_MAX],
            http_address: "127.0.0.1:7780".into(),
        };
        assert_eq!(bound_node_status(status.clone()), status);
    }

    #[test]
    fn node_status_of_any_size_is_cut() {
        let long = "ü".repeat(100_000);
        let mut counters: std::collections::HashMap<_, _> =
            (0..60_000).map(|n| (format!("c{n:05}"), n)).collect();
        counters.insert(long.clone(), 1);
        let section = HotSection {
            namespace: long.clone(),
            ..HotSection::default()
        };
        let cut = bound_node_status(NodeStatusResponse {
            role: long.clone(),
            name: long.clone(),
            address: long.clone(),
            version: long.clone(),
            http_address: String::new(),
            counters,
            hottest: vec![section; 1_000],
            incarnation: u64::MAX,
            recent_load: vec![LoadSample::default(); 60_000],
        });
        let first = (0..COUNTERS_MAX as u64).map(|n| (format!("c{n:05}"), n));
        assert_eq!(cut.counters, first.collect());
        assert_eq!(cut.hottest.len(), HOTTEST_MAX);
        assert_eq!(cut.recent_load.len(), LOAD_SAMPLES_MAX);
        let texts = [cut.role, cut.name, cut.address, cut.version];
        let namespaces = cut.hottest.into_iter().map(|section| section.namespace);
        for text in texts.into_iter().chain(namespaces) {
            assert_eq!(text, "ü".repeat(TEXT_BYTES_MAX / 2));
        }
    }
    #[test]
    fn page_at_no_address_is_dropped() {
        let http_address = |text: &str| {
            let status = NodeStatusResponse {
                http_address: text.to_owned(),
                ..NodeStatusResponse::default()
            };
            bound_node_status(status).http_address
        };
        for address in ["127.0.0.1:7780", "[fd00::7]:7780", "a1.internal:7780"] {
            assert_eq!(http_address(address), address);
        }
        for text in [
            "a1.internal",
            "a1.internal:7780/path",
            "user@a1.internal:7780",
            "javascript:alert(1)",
            "0.0.0.0:7780",
            "[::]:7780",
            &format!("{}:7780", "a".repeat(100_000)),
        ] {
            assert_eq!(http_address(text), "", "{text}");
        }
    }
}

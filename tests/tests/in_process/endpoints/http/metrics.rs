//! Metrics have the same names in Prometheus' output, in docs/operations/metrics.md and in deploy/.
//!
//! Starts a cluster, reads every metric, and compares the names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use seqsvr_access::Access;
use seqsvr_alloc::AllocServer;
use seqsvr_client::FamilySpec;
use seqsvr_core::layout::TickScale;
use seqsvr_gateway::{HttpOptions, HttpServer, http};
use seqsvr_net::TcpTransport;
use seqsvr_store::StoreServer;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, any_port, create_family, new_caller, new_client, next_request,
    read_counter, read_counters,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use super::{HttpAnswer, HttpCaller, alloc_operator_routes};

/// Prefix of every name.
const PREFIXES: [&str; 3] = ["seqsvr_alloc_", "seqsvr_store_", "seqsvr_raft_"];
/// Suffixes of a histogram's name.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

/// Type and labels.
type MetricShape = (String, BTreeSet<String>);

pub(super) async fn open_store_endpoint(store: &StoreServer) -> HttpServer {
    let paths = http::operator_routes(store.clone(), Access::by_role());
    let endpoint = HttpServer::start(HttpOptions::new(any_port()), &TcpTransport, paths).await;
    endpoint.unwrap()
}

pub(super) async fn open_alloc_endpoint(alloc: &AllocServer) -> HttpServer {
    let paths = alloc_operator_routes(alloc);
    let endpoint = HttpServer::start(HttpOptions::new(any_port()), &TcpTransport, paths).await;
    endpoint.unwrap()
}

pub(super) async fn get_once(endpoint: &HttpServer, path: &str) -> HttpAnswer {
    HttpCaller::connect(endpoint.local_addr())
        .await
        .get(path)
        .await
}

async fn scrape_metrics(endpoint: &HttpServer) -> String {
    let answer = get_once(endpoint, "/metrics").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let kind = "content-type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(answer.head.contains(kind), "{}", answer.head);
    answer.body
}

/// Returns the value of one series.
fn series_value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|l| l.strip_prefix(series));
    let value = line.and_then(|rest| rest.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {series} in {text}"));
    value.parse().unwrap()
}

/// Parses the metrics that a text describes, by name.
fn parse_described(text: &str) -> BTreeMap<String, MetricShape> {
    let mut all: BTreeMap<String, MetricShape> = BTreeMap::new();
    for typed in text.lines().filter_map(|l| l.strip_prefix("# TYPE ")) {
        let (name, kind) = typed.split_once(' ').unwrap();
        let again = all.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        assert_eq!(again, None, "{name} is described twice");
    }
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let name =
            metric_of_name(name, &all).unwrap_or_else(|| panic!("{line} is of nothing described"));
        let labels = labels
            .split("\",")
            .filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned());
        let about = all.get_mut(&name).unwrap();
        about.1.extend(labels.filter(|label| label != "le"));
    }
    all
}

/// Returns the metric that a name belongs to.
fn metric_of_name(name: &str, all: &BTreeMap<String, MetricShape>) -> Option<String> {
    let is = |name: &str, histogram: bool| {
        let about = all.get(name)?;
        (about.0 == "histogram" || !histogram).then(|| name.to_owned())
    };
    let part = || {
        HISTOGRAM_SUFFIXES
            .iter()
            .find_map(|p| is(name.strip_suffix(p)?, true))
    };
    is(name, false).or_else(part)
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Parses the tables of docs/operations/metrics.md.
fn parse_documented() -> BTreeMap<String, MetricShape> {
    let text = fs::read_to_string(repository_root().join("docs/operations/metrics.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `seqsvr_"));
    let mut all = BTreeMap::new();
    for row in rows {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = columns[..] else {
            panic!("not four columns: {row}");
        };
        assert!(!meaning.is_empty(), "{row}");
        let labels = labels.split(", ").map(|label| label.trim_matches('`'));
        let labels = labels.filter(|label| !label.is_empty());
        let about: MetricShape = (kind.to_owned(), labels.map(ToOwned::to_owned).collect());
        let again = all.insert(name.trim_matches('`').to_owned(), about);
        assert_eq!(again, None, "a name is there twice: {row}");
    }
    all
}

/// Returns the names of metrics in a text.
fn find_metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let named = words.filter(|word| {
        let rest = PREFIXES.iter().find_map(|p| word.strip_prefix(p));
        rest.is_some_and(|rest| !rest.is_empty())
    });
    named.map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_in_output_docs_and_dashboards_are_the_same() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let client = new_client(&allocs);
    let scale = TickScale::new(0, 1).unwrap();
    let spec = FamilySpec::new("orders", "0:1,time:41,seq:9".parse().unwrap(), scale);
    create_family(&client.admin(), &spec).await;
    client.family("orders").await.unwrap().next().await.unwrap();
    let mut endpoints = vec![open_alloc_endpoint(&allocs[0]).await];
    for store in 0..3 {
        endpoints.push(open_store_endpoint(cluster.store(store)).await);
    }
    // The leader reports followers once it has received an answer from them.
    let served = wait_until("all metrics", TEST_TIMEOUT, async || {
        let mut served = BTreeMap::new();
        for endpoint in &endpoints {
            served.extend(parse_described(&scrape_metrics(endpoint).await));
        }
        let labels = served.get("seqsvr_raft_follower_last_ack_age_seconds")?;
        labels.1.contains("store").then_some(served)
    })
    .await;
    assert_eq!(
        served,
        parse_documented(),
        "served, and docs/operations/metrics.md"
    );

    for file in ["grafana/seqsvr.json", "prometheus/alerts.yml"] {
        let text = fs::read_to_string(repository_root().join("deploy").join(file)).unwrap();
        let used = find_metric_names(&text);
        assert!(used.len() > 15, "{file} uses {used:?}");
        let gone = used
            .into_iter()
            .filter(|name| metric_of_name(name, &served).is_none());
        assert_eq!(gone.collect::<Vec<_>>(), [""; 0], "{file}");
    }

    // `status --json` has the same values by the same names.
    let metric = |prefix: &str, name: &str| {
        let (base, unit) = match (name.strip_suffix("_ms"), name.strip_suffix("_us")) {
            (Some(base), _) | (_, Some(base)) => (base, "_seconds"),
            _ => (name, ""),
        };
        let name = format!("{prefix}{base}{unit}");
        [name.clone(), format!("{name}_total")]
    };
    let status = read_counters(allocs[0].local_addr()).await;
    let plain = status
        .keys()
        .filter(|name| !name.starts_with("errors_") && !name.ends_with("_orders"));
    for name in plain {
        // It has one name on all servers.
        let prefix = match &**name {
            "insecure" | "certificate_expiry_seconds" | "log_lines_dropped" => "seqsvr_",
            _ => "seqsvr_alloc_",
        };
        let names = metric(prefix, name);
        assert!(names.iter().any(|n| served.contains_key(n)), "{names:?}");
    }
    for store in 0..3 {
        for name in cluster.store_counters(store).await.keys() {
            let by_store = name.starts_with("raft_follower_lag_entries_")
                || name.starts_with("raft_follower_last_ack_age_ms_")
                || name.starts_with("clock_offset_ms_");
            let of_every_server = [
                "insecure",
                "certificate_expiry_seconds",
                "log_lines_dropped",
            ]
            .contains(&&**name);
            let prefix = if name.starts_with("raft_") || of_every_server {
                "seqsvr_"
            } else {
                "seqsvr_store_"
            };
            let names = metric(prefix, name);
            let known = by_store || names.iter().any(|n| served.contains_key(n));
            assert!(known, "{names:?}");
        }
    }
    for endpoint in endpoints {
        endpoint.shutdown().await;
    }
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_all_endpoints_are_timed_and_errors_counted_by_reason() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_alloc_endpoint(&allocs[0]).await;
    let calls = |text: &str, method: &str| {
        let series = format!("seqsvr_alloc_request_duration_seconds_count{{method=\"{method}\"}}");
        series_value(text, &series)
    };
    let error = |text: &str, reason: &str| {
        let series = format!("seqsvr_alloc_errors_total{{reason=\"{reason}\"}}");
        series_value(text, &series)
    };
    let before = scrape_metrics(&endpoint).await;
    let mut plain = new_caller(&allocs[0]).await;
    for _ in 0..3 {
        plain.next(next_request("", 7)).await.unwrap();
    }
    plain.next(next_request("nowhere", 7)).await.unwrap_err();
    let merging = new_client(&allocs);
    let last = merging.default_namespace().next(7).await.unwrap().last;
    assert_eq!(last, 4);
    let numbers = super::open_endpoint(&allocs[0]).await;
    let answer = get_once(&numbers, "/v1/next?uid=7").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let after = scrape_metrics(&endpoint).await;
    let grew = |of: &dyn Fn(&str) -> f64| of(&after) - of(&before);
    assert_eq!(grew(&|text| calls(text, "Next")), 5.0, "{after}");
    assert!(grew(&|text| calls(text, "Pipe")) >= 1.0);
    assert_eq!(grew(&|text| error(text, "NAMESPACE_NOT_FOUND")), 1.0);
    assert_eq!(
        grew(&|text| series_value(text, "seqsvr_alloc_numbers_issued_total")),
        5.0
    );
    assert_eq!(read_counter(&allocs[0], "numbers_issued").await, 5);
    assert_eq!(series_value(&after, "seqsvr_alloc_lease_valid"), 1.0);
    assert_eq!(series_value(&after, "seqsvr_alloc_keys_in_memory"), 1.0);
    let left = series_value(&after, "seqsvr_alloc_window_remaining_min");
    assert_eq!(left, 10_000.0 - 5.0);

    let mut open = HttpCaller::connect(endpoint.local_addr()).await;
    open.send("GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n").await;
    let answer = open.read_answer().await;
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(answer.head.contains(kind), "{}", answer.head);
    assert!(answer.body.ends_with("\n# EOF\n"), "{}", answer.body);
    assert!(
        answer
            .body
            .contains("# TYPE seqsvr_alloc_numbers_issued counter\n")
    );
    numbers.shutdown().await;
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

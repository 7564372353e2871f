//! The dashboard's requests, over sockets, in front of real AllocSvrs and stores.
//!
//! Fault: the only store is stopped; the dashboard shows the AllocSvr's last data.

use std::collections::BTreeSet;

use futures::future::join_all;
use seqsvr_alloc::AllocServer;
use seqsvr_client::Key;
use seqsvr_gateway::http::dashboard_routes;
use seqsvr_gateway::{HttpOptions, HttpServer};
use seqsvr_net::TcpTransport;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, any_port, new_client};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn open_dashboard(alloc: &AllocServer) -> HttpServer {
    let paths = dashboard_routes(alloc.sequence(), alloc.admin(), alloc.transport());
    let endpoint = HttpServer::start(HttpOptions::new(any_port()), &TcpTransport, paths).await;
    endpoint.unwrap()
}

/// Returns the status line with the headers, and the body.
async fn get_page(endpoint: &HttpServer, path: &str) -> (String, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(endpoint.local_addr()).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(TEST_TIMEOUT, exchange)
        .await
        .expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

async fn get_json(endpoint: &HttpServer, path: &str) -> Value {
    let (head, body) = get_page(endpoint, path).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}\n{body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the answer of one address, among those of the nodes.
fn find_node<'a>(view: &'a Value, address: &str) -> &'a Value {
    let nodes = view["nodes"].as_array().unwrap().iter();
    let mut found = nodes.filter(|n| n["address"] == address);
    found.next().unwrap()
}

#[tokio::test]
async fn dashboard_requests_return_what_it_shows() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let endpoint = open_dashboard(&allocs[0]).await;

    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
    ] {
        let (head, body) = get_page(&endpoint, path).await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains(kind));
        assert!(
            head.contains("default-src 'none'; script-src 'self'"),
            "{head}"
        );
        // The page loads nothing from elsewhere.
        assert!(body.len() > 1_000 && !body.contains("//cdn") && !body.contains("https://"));
    }

    let client = new_client(&allocs);
    let slots = get_json(&endpoint, "/v1/slots").await;
    let refs = slots["owner_indexes"].as_array().unwrap();
    assert_eq!(
        (refs.len(), slots["epochs"].as_array().unwrap().len()),
        (64, 64)
    );
    for key in ["42", "alice"] {
        let ours = Key::parse(key);
        let query = match ours {
            Key::Uid(_) => format!("uid={key}"),
            Key::Key(_) => format!("key={key}"),
        };
        let answer = get_json(&endpoint, &format!("/v1/route?{query}")).await;
        let (section, slot, route) = client.default_namespace().route(ours).await.unwrap();
        let owner = route.owner.unwrap();
        assert_eq!(answer["section"], section.section.0);
        assert_eq!(answer["slot"], slot.0);
        assert_eq!(answer["epoch"], route.epoch.0);
        assert_eq!(answer["owner"]["name"], owner.name);
        let by_map = refs[usize::from(slot.0)].as_u64().unwrap() as usize - 1;
        assert_eq!(slots["owners"][by_map]["address"], owner.address);
    }
    for (path, why) in [
        ("/v1/route", "exactly one of uid and key"),
        ("/v1/route?uid=1&key=a", "exactly one of uid and key"),
        ("/v1/route?uid=-1", "a decimal below 2^64"),
        ("/v1/route?who=1", "unknown field"),
        ("/v1/route?key=", "1 to 128"),
        ("/v1/route?uid=1&namespace=none", "there is no namespace"),
    ] {
        let (head, body) = get_page(&endpoint, path).await;
        assert!(head.starts_with("HTTP/1.1 4"), "{path}: {head}");
        assert!(body.contains(why), "{path}: {body}");
    }

    // A section in use is among the hottest after two samples.
    let view = wait_until("a hot section", TEST_TIMEOUT, async || {
        client.default_namespace().next(42).await.unwrap();
        let view = get_json(&endpoint, "/v1/cluster").await;
        let nodes = view["nodes"].as_array().unwrap();
        let hot = |n: &Value| n["hottest"].as_array().is_some_and(|h| !h.is_empty());
        nodes.iter().any(hot).then_some(view)
    })
    .await;
    assert_eq!(view["store_error"], Value::Null);
    let numbers = &view["recent_load"]["numbers_per_second"];
    assert!(numbers.is_array(), "the page has a chart at once: {view}");
    assert_eq!(view["served_by"]["name"], "a1");
    assert_eq!(view["stores"].as_array().unwrap().len(), 3);
    for alloc in &allocs {
        let counters = &find_node(&view, &alloc.local_addr().to_string())["counters"];
        let left = counters["lease_remaining_ms"].as_u64().unwrap();
        assert!((1..=LEASE.as_millis() as u64).contains(&left), "{left}");
    }
    for store in &cluster.addresses {
        assert!(find_node(&view, &store.to_string())["counters"]["raft_term"].is_u64());
    }

    // However many viewers there are, the cluster is queried once a second.
    let at = async || {
        get_json(&endpoint, "/v1/cluster").await["at_ms"]
            .as_u64()
            .unwrap()
    };
    let mut times = BTreeSet::new();
    wait_until("three answers", TEST_TIMEOUT, async || {
        times.extend(join_all((0..40).map(|_| at())).await);
        (times.len() >= 3).then_some(())
    })
    .await;
    let times: Vec<u64> = times.into_iter().collect();
    assert!(times.windows(2).all(|w| w[1] - w[0] >= 1_000), "{times:?}");

    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test]
async fn dashboard_without_a_store_shows_the_allocs_data() {
    let mut cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let (endpoint, later) = (
        open_dashboard(&allocs[0]).await,
        open_dashboard(&allocs[1]).await,
    );
    let view = get_json(&endpoint, "/v1/cluster").await;
    assert_eq!(view["store_error"], Value::Null);
    cluster.stop_stores().await;
    for (endpoint, had_store_before) in [(&endpoint, true), (&later, false)] {
        let view = wait_until("it to notice", TEST_TIMEOUT, async || {
            let view = get_json(endpoint, "/v1/cluster").await;
            view["store_error"].is_string().then_some(view)
        })
        .await;
        let sessions = view["sessions"].as_array().unwrap();
        let slots = |name: &str| {
            let mut found = sessions.iter().filter(|s| s["name"] == name);
            found.next().unwrap()["slots"].as_u64().unwrap()
        };
        assert_eq!(
            (slots("a1") + slots("a2"), &view["slots"]),
            (64, &64.into())
        );
        for alloc in &allocs {
            assert!(find_node(&view, &alloc.local_addr().to_string())["counters"].is_object());
        }
        assert_eq!(
            view["lease_ms"],
            LEASE.as_millis() as u64,
            "D of the last renewal"
        );
        assert_eq!(view["store_age_ms"].is_u64(), had_store_before);
        if had_store_before {
            let error = &find_node(&view, &cluster.addresses[0].to_string())["error"];
            assert!(error.as_str().unwrap().contains("refused"), "{error}");
        }
    }
    join_all([endpoint.shutdown(), later.shutdown()]).await;
    cluster.stop(&allocs).await;
}

//! Operators' calls to one AllocSvr, which it forwards to another.
//!
//! Fault: the target accepts connections and answers nothing.

use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DrainRequest, OpenSessionRequest, Reason};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, any_port, expect_rejection, http_url,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Schedule: AllocSvr a2 loses its power; a1 forwards a drain over a connection that no server
/// answers. A retry is safe and succeeds once a2 is back or its session has ended, so the error
/// must be one that clients retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_over_dead_connection_returns_a_retryable_error() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Each connection ends after its first bytes.
    let dead = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16]).await;
        }
    });
    let store = StoreClient::connect(http_url(cluster.addresses[0])).await;
    let session = OpenSessionRequest {
        name: "a2".into(),
        address: address.clone(),
        nonce: vec![1; 16].into(),
        ..OpenSessionRequest::default()
    };
    store.unwrap().open_session(session).await.unwrap();
    let mut admin = AdminClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap();
    let request = DrainRequest {
        name: "a2".into(),
        cancel: false,
        forwarded: false,
    };
    let (code, reason, text) = expect_rejection(admin.drain(request).await);
    let expected = (tonic::Code::Unavailable, Reason::Unreachable);
    assert_eq!((code, reason), expected, "{text}");
    assert!(text.contains(&address), "{text}");
    dead.abort();
    cluster.stop(&[alloc]).await;
}

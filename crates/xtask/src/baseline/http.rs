//! The baseline HTTP service: axum that answers each request with JSON of the size of seqsvr's.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;

/// Serves the baseline HTTP service until the process ends.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve_http(listen: SocketAddr) -> io::Result<()> {
    let counter = Arc::new(AtomicU64::new(0));
    let next = move || {
        let number = counter.fetch_add(1, Relaxed) + 1;
        let json = format!("{{\"first\":{number},\"last\":{number},\"epoch\":1}}\n");
        async { ([(CONTENT_TYPE, "application/json")], json) }
    };
    let routes = Router::new().route("/v1/next", get(next));
    let listener = TcpListener::bind(listen).await?;
    axum::serve(listener, routes).await
}

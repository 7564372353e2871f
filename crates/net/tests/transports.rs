//! The transports of this crate pass the conformance suite, also below a limit of connections.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

mod conformance;
#[path = "support/pki.rs"]
mod pki;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use conformance::{TestNetwork, check_transport};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use pki::TestCa;
use seqsvr_net::tls::{TlsDir, TlsTransport};
use seqsvr_net::{
    ByteStream, ConnectionLimiter, ConnectionPeer, LimitedConnection, Listener, TcpTransport,
    Transport, accept_connections,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::server::Connected;

/// TCP whose listeners accept through a limiter.
struct LimitedTransport;

impl Transport for LimitedTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        TcpTransport.connect(address)
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpTransport.listen(address).await?;
            let address = listener.local_addr()?;
            let connections = accept_connections(listener, ConnectionLimiter::new("gRPC", 1));
            Ok(Box::new(LimitedListener {
                address,
                connections: Box::pin(connections),
            }) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct LimitedListener {
    address: SocketAddr,
    connections: Pin<Box<dyn Stream<Item = io::Result<LimitedConnection>> + Send>>,
}

impl Listener for LimitedListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async move {
            let connection = self.connections.next().await.unwrap()?;
            let peer = ConnectionPeer::plaintext(connection.connect_info().remote());
            Ok((Box::new(connection) as Box<dyn ByteStream>, peer))
        }
        .boxed()
    }
}

async fn check_on_loopback(transport: impl Transport) {
    let transport: Arc<dyn Transport> = Arc::new(transport);
    check_transport(TestNetwork {
        client: transport.clone(),
        server: transport,
        listen: ([127, 0, 0, 1], 0).into(),
    })
    .await;
}

#[tokio::test]
async fn tcp_transport_conforms() {
    check_on_loopback(TcpTransport).await;
}

#[tokio::test]
async fn tls_transport_conforms() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let uri = "seqsvr://test/store/s1";
    let dir = ca.write(&pki.path().join("s1"), uri, &["127.0.0.1"]);
    let dir = Arc::new(TlsDir::read(&dir).unwrap());
    check_on_loopback(TlsTransport::new(Arc::new(TcpTransport), dir)).await;
}

#[tokio::test]
async fn limited_connections_conform() {
    check_on_loopback(LimitedTransport).await;
}

/// Schedule: clients hold all connections of a store that they get, and another store connects.
#[tokio::test]
async fn store_connects_under_tls_while_others_hold_all_connections() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let write = |role: &str| {
        let uri = format!("seqsvr://test/{role}/n1");
        let dir = ca.write(&pki.path().join(role), &uri, &["127.0.0.1"]);
        TlsTransport::from_dir(&dir).unwrap()
    };
    let (store, client) = (write("store"), write("client"));
    let listener = store.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let incoming = accept_connections(listener, ConnectionLimiter::of_store("gRPC", 4));
    let mut incoming = std::pin::pin!(incoming);
    let mut open = Vec::new();
    for _ in 0..3 {
        let caller = client.connect(address.clone()).await.unwrap();
        open.push((incoming.next().await.unwrap().unwrap(), caller));
    }
    let mut caller = store.connect(address).await.unwrap();
    let calling = async {
        caller.write_all(b"hi").await?;
        caller.flush().await
    };
    let (admitted, called) = tokio::join!(incoming.next(), calling);
    called.unwrap();
    let mut said = [0; 2];
    admitted
        .unwrap()
        .unwrap()
        .read_exact(&mut said)
        .await
        .unwrap();
    assert_eq!(said, *b"hi");
}

//! Test double: the network of one AllocSvr to the stores and to its peers.
//!
//! The test can cut and heal it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_net::{ByteStream, Listener, TcpTransport, Transport};
use tokio::io::{copy_bidirectional, duplex};
use tokio::sync::watch;

/// Bytes in flight in one direction.
const BUFFER_BYTES: usize = 64 << 10;

/// TCP whose outgoing connections end, and cannot be made, while it is cut. Clones share the state.
#[derive(Clone)]
pub struct CuttableLink {
    up: Arc<watch::Sender<bool>>,
}

impl CuttableLink {
    /// Creates a link that is up.
    pub fn connected() -> CuttableLink {
        CuttableLink {
            up: Arc::new(watch::Sender::new(true)),
        }
    }

    /// Ends all connections and lets no new one through. Bytes sent before may have arrived.
    pub fn cut(&self) {
        self.up.send_replace(false);
    }

    /// Lets new connections through again.
    pub fn heal(&self) {
        self.up.send_replace(true);
    }
}

impl Transport for CuttableLink {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let mut up = self.up.subscribe();
        async move {
            if !*up.borrow_and_update() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let mut far = TcpTransport.connect(address).await?;
            let (near, mut wire) = duplex(BUFFER_BYTES);
            tokio::spawn(async move {
                tokio::select! {
                    _ = up.wait_for(|up| !up) => {}
                    _ = copy_bidirectional(&mut wire, &mut far) => {}
                }
            });
            Ok(Box::new(near) as Box<dyn ByteStream>)
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        TcpTransport.listen(address)
    }
}

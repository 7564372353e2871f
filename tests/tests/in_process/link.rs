//! The link between an AllocSvr and a store, to be cut and healed.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to one address while it is up.
pub(crate) struct Link {
    pub(crate) address: SocketAddr,
    up: watch::Sender<bool>,
}

impl Link {
    pub(crate) async fn to(target: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let up = watch::Sender::new(true);
        let state = up.subscribe();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, target, state.clone()));
            }
        });
        Link { address, up }
    }

    /// Ends all connections and lets no new one through. What was sent before may have arrived.
    pub(crate) fn cut(&self) {
        self.up.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.up.send_replace(true);
    }
}

async fn pass(mut near: TcpStream, target: SocketAddr, mut up: watch::Receiver<bool>) {
    if !*up.borrow_and_update() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        _ = up.wait_for(|up| !up) => {}
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
    }
}

//! A transport whose links can be cut and restored while nodes use it.

#[path = "../../../../net/tests/conformance/mod.rs"]
mod conformance;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use conformance::{TestNetwork, check_transport};
use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_net::{ByteStream, Listener, TcpTransport, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Names of nodes that are cut off from all others.
#[derive(Clone, Default)]
pub(crate) struct CuttableLinks(Arc<Mutex<HashSet<String>>>);

impl CuttableLinks {
    /// Cuts a node off: nothing reaches it and nothing comes from it.
    pub(crate) fn cut(&self, address: &str) {
        self.0.lock().unwrap().insert(address.to_owned());
    }

    /// Restores a node's links.
    pub(crate) fn restore(&self, address: &str) {
        self.0.lock().unwrap().remove(address);
    }

    /// Returns the transport of the node at `address`.
    pub(crate) fn transport_of(&self, address: &str) -> Arc<dyn Transport> {
        Arc::new(LinkedTransport {
            links: self.clone(),
            address: address.to_owned(),
        })
    }

    fn open(&self, from: &str, to: &str) -> io::Result<()> {
        let cut = self.0.lock().unwrap();
        match cut.contains(from) || cut.contains(to) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

struct LinkedTransport {
    links: CuttableLinks,
    address: String,
}

impl Transport for LinkedTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let (links, from) = (self.links.clone(), self.address.clone());
        async move {
            links.open(&from, &address)?;
            let io = TcpTransport.connect(address.clone()).await?;
            let to = address;
            Ok(Box::new(CuttableIo {
                links,
                from,
                to,
                io,
            }) as Box<dyn ByteStream>)
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        TcpTransport.listen(address)
    }
}

struct CuttableIo {
    links: CuttableLinks,
    from: String,
    to: String,
    io: Box<dyn ByteStream>,
}

impl AsyncRead for CuttableIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.links.open(&self.from, &self.to)?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for CuttableIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.links.open(&self.from, &self.to)?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.links.open(&self.from, &self.to)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn cuttable_links_conform() {
    let links = CuttableLinks::default();
    check_transport(TestNetwork {
        client: links.transport_of("client"),
        server: links.transport_of("server"),
        listen: ([127, 0, 0, 1], 0).into(),
    })
    .await;
}

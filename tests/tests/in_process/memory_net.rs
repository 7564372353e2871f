//! Test double: a network in memory, which can partition nodes.
//!
//! It proves that a cluster uses no network but the given transport.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_proto::transport::{Io, Listener, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};

/// Bytes in flight in one direction.
const BUFFER: usize = 64 << 10;

/// The network. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MemoryNet(Arc<Shared>);

struct Shared {
    hosts: Mutex<BTreeMap<SocketAddr, Host>>,
    /// Partitioned nodes: bytes to and from them wait.
    parted: watch::Sender<BTreeSet<String>>,
}

struct Host {
    name: String,
    connections: mpsc::Sender<DuplexStream>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            hosts: Mutex::default(),
            parted: watch::Sender::new(BTreeSet::new()),
        }
    }
}

impl MemoryNet {
    /// Returns the network as this node sees it.
    pub(crate) fn node(&self, name: &str) -> Arc<dyn Transport> {
        Arc::new(Node {
            name: name.to_owned(),
            net: self.clone(),
        })
    }

    /// Partitions a node from all others, until [`MemoryNet::heal`].
    pub(crate) fn part(&self, name: &str) {
        self.0.parted.send_modify(|p| {
            p.insert(name.to_owned());
        });
    }

    pub(crate) fn heal(&self) {
        self.0.parted.send_modify(BTreeSet::clear);
    }
}

struct Node {
    name: String,
    net: MemoryNet,
}

impl Transport for Node {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (name, net) = (self.name.clone(), self.net.clone());
        async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let address: SocketAddr = address.parse().map_err(|_| refused())?;
            let (ends, connections) = {
                let hosts = net.0.hosts.lock().unwrap();
                let host = hosts.get(&address).ok_or_else(refused)?;
                ([name, host.name.clone()], host.connections.clone())
            };
            let (near, near_wire) = duplex(BUFFER);
            let (far_wire, far) = duplex(BUFFER);
            let (near_read, near_write) = tokio::io::split(near_wire);
            let (far_read, far_write) = tokio::io::split(far_wire);
            let up = net.0.parted.subscribe();
            tokio::spawn(carry(near_read, far_write, up.clone(), ends.clone()));
            tokio::spawn(carry(far_read, near_write, up.clone(), ends.clone()));
            joined(&mut up.clone(), &ends).await;
            connections.send(far).await.map_err(|_| refused())?;
            Ok(Box::new(near) as Box<dyn Io>)
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (tx, rx) = mpsc::channel(64);
        let mut hosts = self.net.0.hosts.lock().unwrap();
        let taken = hosts
            .get(&address)
            .is_some_and(|h| !h.connections.is_closed());
        let host = Host {
            name: self.name.clone(),
            connections: tx,
        };
        if !taken {
            hosts.insert(address, host);
        }
        async move {
            if taken {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            Ok(Box::new(Ear { address, rx }) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct Ear {
    address: SocketAddr,
    rx: mpsc::Receiver<DuplexStream>,
}

impl Listener for Ear {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Io>, SocketAddr)>> {
        async move {
            match self.rx.recv().await {
                Some(stream) => Ok((Box::new(stream) as Box<dyn Io>, self.address)),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Waits until neither end is partitioned.
async fn joined(parted: &mut watch::Receiver<BTreeSet<String>>, ends: &[String; 2]) {
    let _ = parted
        .wait_for(|parted| !ends.iter().any(|end| parted.contains(end)))
        .await;
}

/// Carries the bytes of one direction of a connection.
async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut parted: watch::Receiver<BTreeSet<String>>,
    ends: [String; 2],
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n) = from.read(&mut buffer).await {
        joined(&mut parted, &ends).await;
        if n == 0 || to.write_all(&buffer[..n]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

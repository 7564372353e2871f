//! Test double: a network in memory, which can partition nodes.
//!
//! It proves that a cluster uses no network but the given transport.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_net::{ByteStream, ConnectionPeer, Listener, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};

/// Bytes in flight in one direction.
const BUFFER_BYTES: usize = 64 << 10;

/// The network. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryNet(Arc<MemoryNetState>);

struct MemoryNetState {
    hosts: Mutex<BTreeMap<SocketAddr, MemoryHost>>,
    /// Partitioned nodes: bytes to and from them wait.
    partitioned: watch::Sender<BTreeSet<String>>,
}

struct MemoryHost {
    name: String,
    connections: mpsc::Sender<DuplexStream>,
}

impl Default for MemoryNetState {
    fn default() -> MemoryNetState {
        MemoryNetState {
            hosts: Mutex::default(),
            partitioned: watch::Sender::new(BTreeSet::new()),
        }
    }
}

impl MemoryNet {
    /// Returns the network as this node sees it.
    pub fn node(&self, name: &str) -> Arc<dyn Transport> {
        Arc::new(NodeTransport {
            name: name.to_owned(),
            net: self.clone(),
        })
    }

    /// Partitions a node from all others, until [`MemoryNet::heal`].
    pub fn partition(&self, name: &str) {
        self.0.partitioned.send_modify(|p| {
            p.insert(name.to_owned());
        });
    }

    /// Ends all partitions. Bytes that waited are delivered.
    pub fn heal(&self) {
        self.0.partitioned.send_modify(BTreeSet::clear);
    }
}

struct NodeTransport {
    name: String,
    net: MemoryNet,
}

impl Transport for NodeTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let (name, net) = (self.name.clone(), self.net.clone());
        async move {
            let refused_error = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let address: SocketAddr = address.parse().map_err(|_| refused_error())?;
            let (ends, connections) = {
                let hosts = net.0.hosts.lock().unwrap();
                let host = hosts.get(&address).ok_or_else(refused_error)?;
                ([name, host.name.clone()], host.connections.clone())
            };
            let (near, near_wire) = duplex(BUFFER_BYTES);
            let (far_wire, far) = duplex(BUFFER_BYTES);
            let (near_read, near_write) = tokio::io::split(near_wire);
            let (far_read, far_write) = tokio::io::split(far_wire);
            let up = net.0.partitioned.subscribe();
            tokio::spawn(carry_bytes(near_read, far_write, up.clone(), ends.clone()));
            tokio::spawn(carry_bytes(far_read, near_write, up.clone(), ends.clone()));
            wait_until_joined(&mut up.clone(), &ends).await;
            connections.send(far).await.map_err(|_| refused_error())?;
            Ok(Box::new(near) as Box<dyn ByteStream>)
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (tx, rx) = mpsc::channel(64);
        let mut hosts = self.net.0.hosts.lock().unwrap();
        let taken = hosts
            .get(&address)
            .is_some_and(|h| !h.connections.is_closed());
        let host = MemoryHost {
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
            Ok(Box::new(MemoryListener { address, rx }) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct MemoryListener {
    address: SocketAddr,
    rx: mpsc::Receiver<DuplexStream>,
}

impl Listener for MemoryListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async move {
            match self.rx.recv().await {
                Some(stream) => Ok((
                    Box::new(stream) as Box<dyn ByteStream>,
                    ConnectionPeer::plaintext(self.address),
                )),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Waits until neither end is partitioned.
async fn wait_until_joined(
    partitioned: &mut watch::Receiver<BTreeSet<String>>,
    ends: &[String; 2],
) {
    let _ = partitioned
        .wait_for(|partitioned| !ends.iter().any(|end| partitioned.contains(end)))
        .await;
}

/// Carries the bytes of one direction of a connection.
async fn carry_bytes(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut partitioned: watch::Receiver<BTreeSet<String>>,
    ends: [String; 2],
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(n) = from.read(&mut buffer).await {
        wait_until_joined(&mut partitioned, &ends).await;
        if n == 0 || to.write_all(&buffer[..n]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

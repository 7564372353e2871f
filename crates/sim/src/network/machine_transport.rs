//! Implements the `Transport` of `seqsvr-net` over the simulated network.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use seqsvr_net::{ByteStream, ConnectionPeer, Listener, PeerCertificate, Transport};
use tokio::sync::oneshot;

use super::network_conditions::MachineId;
use super::network_state::{AcceptQueue, InFlightSegment, SimConnection, TcpSegment};
use super::sim_network::SimNetwork;
use super::sim_stream::SimStream;

/// Returns the transport of a machine, without TLS.
pub fn machine_transport(net: &SimNetwork, machine: MachineId) -> Arc<dyn Transport> {
    let net = net.clone();
    Arc::new(MachineTransport {
        machine,
        net,
        certificate: None,
    })
}

/// Returns the transport of a machine whose connections have this certificate. Servers see it as
/// that of a caller under TLS; there are no handshakes.
pub fn certified_transport(
    net: &SimNetwork,
    machine: MachineId,
    certificate: PeerCertificate,
) -> Arc<dyn Transport> {
    let net = net.clone();
    Arc::new(MachineTransport {
        machine,
        net,
        certificate: Some(certificate),
    })
}

struct MachineTransport {
    machine: MachineId,
    net: SimNetwork,
    certificate: Option<PeerCertificate>,
}

fn connection_refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

impl Transport for MachineTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let (machine, net) = (self.machine, self.net.clone());
        let certificate = self.certificate.clone();
        async move {
            let address: SocketAddr = address.parse().map_err(|_| connection_refused())?;
            let (answer, answered) = oneshot::channel();
            let id = {
                let mut state = net.lock_state();
                let to = state
                    .hosts
                    .get(&address.ip())
                    .copied()
                    .ok_or_else(connection_refused)?;
                let id = state.connections_made;
                state.connections_made += 1;
                let connection = SimConnection {
                    ends: [machine, to],
                    directions: Default::default(),
                    answer: Some(answer),
                    address,
                    certificate,
                    is_closed: [false; 2],
                };
                state.connections.insert(id, connection);
                state.send_or_hold(InFlightSegment {
                    connection: id,
                    from: 0,
                    segment: TcpSegment::Connect,
                });
                id
            };
            // Dropped with this future if the caller stops waiting.
            let stream = SimStream::new_connecting(net, id);
            match answered.await {
                Ok(true) => Ok(Box::new(stream) as Box<dyn ByteStream>),
                _ => Err(connection_refused()),
            }
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let mut state = self.net.lock_state();
        let is_free = !state.listeners.contains_key(&address);
        if is_free {
            let queue = AcceptQueue {
                machine: self.machine,
                unaccepted: Default::default(),
                waker: None,
            };
            state.listeners.insert(address, queue);
        }
        drop(state);
        let (net, machine) = (self.net.clone(), self.machine);
        async move {
            match is_free {
                true => Ok(Box::new(SimListener {
                    net,
                    address,
                    machine,
                }) as Box<dyn Listener>),
                false => Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        .boxed()
    }
}

struct SimListener {
    net: SimNetwork,
    address: SocketAddr,
    machine: MachineId,
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.net.lock_state();
        let is_own = state
            .listeners
            .get(&self.address)
            .is_some_and(|e| e.machine == self.machine);
        // A machine without power has no listener any more.
        let queue = match is_own && !state.powered_off.contains(&self.machine) {
            true => state.listeners.remove(&self.address),
            false => None,
        };
        // Reset connections that were not accepted, after the lock is released.
        let ids = queue.map_or_else(VecDeque::new, |queue| queue.unaccepted);
        let accept = |id| SimStream::new_accepted(self.net.clone(), id);
        let unaccepted: Vec<SimStream> = ids.into_iter().map(accept).collect();
        drop(state);
        drop(unaccepted);
    }
}

impl Listener for SimListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        let (net, address) = (self.net.clone(), self.address);
        poll_fn(move |cx| {
            let mut state = net.lock_state();
            let Some(queue) = state.listeners.get_mut(&address) else {
                return Poll::Pending;
            };
            match queue.unaccepted.pop_front() {
                Some(id) => {
                    let connection = state.connections.get(&id);
                    let certificate = connection.and_then(|c| c.certificate.clone());
                    let peer = match certificate {
                        Some(certificate) => ConnectionPeer::certified(address, certificate),
                        None => ConnectionPeer::plaintext(address),
                    };
                    let stream = SimStream::new_accepted(net.clone(), id);
                    let stream = Box::new(stream) as Box<dyn ByteStream>;
                    Poll::Ready(Ok((stream, peer)))
                }
                None => {
                    queue.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .boxed()
    }
}

#[cfg(test)]
#[path = "../../../net/tests/conformance/mod.rs"]
mod conformance;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::conformance::{TestNetwork, check_transport};
    use super::*;
    use crate::event_trace::EventTrace;
    use crate::network::NetworkConditions;

    /// Seeds of the network. Each draws other delays, and other lengths of reads.
    const SEEDS: u64 = 20;
    const CONDITIONS: NetworkConditions = NetworkConditions {
        delay_min_ms: 1,
        delay_max_ms: 20,
        slow_per_mille: 100,
        window: 64 << 10,
        short_read_per_mille: 200,
    };

    #[tokio::test(start_paused = true)]
    async fn simulated_transport_conforms() {
        for seed in 0..SEEDS {
            let net = SimNetwork::new(seed, CONDITIONS, EventTrace::default());
            let listen = SocketAddr::from(([192, 0, 2, 1], 7_800));
            net.add_host(listen, 1);
            let delivering = net.clone();
            let delivery = tokio::spawn(async move {
                for now in 0.. {
                    delivering.deliver_due(now);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            check_transport(TestNetwork {
                client: machine_transport(&net, 0),
                server: machine_transport(&net, 1),
                listen,
            })
            .await;
            delivery.abort();
        }
    }
}

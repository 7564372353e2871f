//! State of the network: connections, links, and segments in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;

use seqsvr_core::sim::{hash, mix};
use tokio::sync::oneshot;

use super::stream::Stream;
use super::{MachineId, NetConduct};
use crate::trace::Trace;

/// Segment of one direction of a connection.
pub(super) enum Segment {
    Connect,
    Answer(bool),
    Data(Vec<u8>),
    End,
    Reset,
}

impl Segment {
    pub(super) fn code(&self) -> u64 {
        match self {
            Segment::Connect => 1,
            Segment::Answer(true) => 2,
            Segment::Answer(false) => 3,
            Segment::Data(_) => 4,
            Segment::End => 5,
            Segment::Reset => 6,
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Segment::Data(data) => data.len() as u64,
            _ => 0,
        }
    }
}

/// Segment in flight from one end of a connection.
pub(super) struct Flight {
    pub(super) connection: u64,
    pub(super) from: usize,
    pub(super) segment: Segment,
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Way {
    pub(super) arrived: VecDeque<Vec<u8>>,
    /// Bytes of the first one that were read.
    pub(super) offset: usize,
    /// Bytes that were sent and not read.
    pub(super) unread: usize,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) has_ended: bool,
    pub(super) sent_end: bool,
    pub(super) is_reset: bool,
    /// Whether the network discards everything that is sent.
    pub(super) is_eaten: bool,
    /// Arrival of the last segment, ms; a later segment does not overtake it.
    pub(super) last_at: u64,
    pub(super) segments: u64,
}

pub(super) struct Connection {
    pub(super) ends: [MachineId; 2],
    /// Directions, by the end that sends.
    pub(super) ways: [Way; 2],
    pub(super) answer: Option<oneshot::Sender<bool>>,
    pub(super) address: SocketAddr,
    pub(super) is_dropped: [bool; 2],
}

pub(super) struct Ear {
    pub(super) machine: MachineId,
    pub(super) accepted: VecDeque<Stream>,
    pub(super) waker: Option<Waker>,
}

/// State of a directed link.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    /// Number of blocks; the link is open at 0.
    pub(super) blocks: u32,
    /// Delay added to each segment, ms.
    pub(super) more_ms: u64,
}

pub(super) struct State {
    pub(super) seed: u64,
    pub(super) conduct: NetConduct,
    pub(super) now: u64,
    pub(super) sequence: u64,
    pub(super) flights: BTreeMap<(u64, u64), Flight>,
    pub(super) held: Vec<Flight>,
    pub(super) links: BTreeMap<(MachineId, MachineId), Link>,
    pub(super) listeners: BTreeMap<SocketAddr, Ear>,
    pub(super) hosts: BTreeMap<std::net::IpAddr, MachineId>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) connections_made: u64,
    /// Machines without power.
    pub(super) dark: BTreeSet<MachineId>,
    /// Machine whose process is ending, and the segments that close its connections.
    pub(super) ending: Option<(MachineId, Vec<Flight>)>,
    /// Time until which a machine's output is delayed, because its process was stopped in its turn.
    pub(super) silent_until: BTreeMap<MachineId, u64>,
    pub(super) trace: Trace,
    pub(super) wakers: Vec<Waker>,
}

impl State {
    pub(super) fn draw(&self, purpose: &str, connection: u64, count: u64) -> u64 {
        mix(mix(mix(self.seed, hash(purpose)), connection), count)
    }

    pub(super) fn link(&self, from: MachineId, to: MachineId) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Sends a segment, or holds it if its link is blocked.
    pub(super) fn send(&mut self, flight: Flight) {
        let Some(connection) = self.connections.get(&flight.connection) else {
            return;
        };
        let (from, to) = (
            connection.ends[flight.from],
            connection.ends[1 - flight.from],
        );
        if self.dark.contains(&from) {
            return;
        }
        if self.link(from, to).blocks > 0 {
            self.held.push(flight);
            return;
        }
        self.schedule(flight, from, to);
    }

    pub(super) fn schedule(&mut self, flight: Flight, from: MachineId, to: MachineId) {
        let (conduct, link) = (self.conduct, self.link(from, to));
        let Some(connection) = self.connections.get(&flight.connection) else {
            return;
        };
        let way = &connection.ways[flight.from];
        let draw = |purpose| {
            let count = 2 * way.segments + flight.from as u64;
            self.draw(purpose, flight.connection, count)
        };
        let spread = conduct.delay_max_ms - conduct.delay_min_ms + 1;
        let mut delay = conduct.delay_min_ms + draw("delay") % spread;
        if draw("slow") % 1_000 < conduct.slow_per_mille {
            delay *= 10;
        }
        let sent = self
            .silent_until
            .get(&from)
            .map_or(self.now, |until| self.now.max(*until));
        let at = (sent + delay + link.more_ms).max(way.last_at);
        if let Some(connection) = self.connections.get_mut(&flight.connection) {
            let way = &mut connection.ways[flight.from];
            way.last_at = at;
            way.segments += 1;
        }
        self.sequence += 1;
        self.flights.insert((at, self.sequence), flight);
    }

    pub(super) fn deliver(&mut self, flight: Flight) {
        let Flight {
            connection: id,
            from: end,
            segment,
        } = flight;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let (from, to) = (connection.ends[end], connection.ends[1 - end]);
        let numbers = [1, id, end as u64, segment.code(), segment.len()];
        let now = self.now;
        self.trace.note(now, &numbers, || {
            format!("net {id} {from}->{to} {} {}", segment.code(), segment.len())
        });
        if self.dark.contains(&to) || connection.ways[end].is_eaten {
            return;
        }
        match segment {
            Segment::Connect => self.accept(id),
            Segment::Answer(accepted) => {
                if let Some(answer) = connection.answer.take() {
                    // The caller may have stopped waiting.
                    let _ = answer.send(accepted);
                }
            }
            Segment::Data(data) => {
                if connection.is_dropped[1 - end] {
                    self.send(Flight {
                        connection: id,
                        from: 1 - end,
                        segment: Segment::Reset,
                    });
                    return;
                }
                let way = &mut connection.ways[end];
                way.arrived.push_back(data);
                self.wakers.extend(way.reader.take());
            }
            Segment::End => {
                let way = &mut connection.ways[end];
                way.has_ended = true;
                self.wakers.extend(way.reader.take());
            }
            Segment::Reset => {
                for way in &mut connection.ways {
                    way.is_reset = true;
                    self.wakers.extend(way.reader.take());
                    self.wakers.extend(way.writer.take());
                }
            }
        }
    }

    pub(super) fn accept(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let accepted = match self.listeners.get_mut(&connection.address) {
            Some(ear) => {
                connection.ends[1] = ear.machine;
                ear.accepted.push_back(Stream::unclaimed(id));
                self.wakers.extend(ear.waker.take());
                true
            }
            None => false,
        };
        self.send(Flight {
            connection: id,
            from: 1,
            segment: Segment::Answer(accepted),
        });
    }

    /// Sends, in order, the held segments whose links are open now.
    pub(super) fn release(&mut self) {
        for flight in std::mem::take(&mut self.held) {
            self.send(flight);
        }
    }
}

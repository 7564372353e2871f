//! The network: TCP connections whose bytes lie in one queue, ordered by time.
//!
//! Each direction of a connection delivers in order. A blocked link *holds* what is sent over it, as
//! retransmission does, and delivers it late once it is open again.

mod stream;
mod transport;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use seqsvr_core::sim::{hash, mix};
use tokio::sync::oneshot;

use crate::trace::Trace;
use stream::Stream;

/// A machine, by number.
pub type MachineId = u32;

/// How the network behaves in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NetConduct {
    /// Shortest delay of a segment, ms; at least 1.
    pub delay_min_ms: u64,
    /// Longest delay of most segments, ms.
    pub delay_max_ms: u64,
    /// Segments of a thousand that take ten times as long.
    pub slow_per_mille: u64,
    /// Bytes of a direction that may be unread.
    pub window: usize,
    /// Reads of a thousand that give less than there is.
    pub short_read_per_mille: u64,
}

/// What travels in one direction of a connection.
enum Segment {
    Connect,
    Answer(bool),
    Data(Vec<u8>),
    End,
    Reset,
}

impl Segment {
    fn code(&self) -> u64 {
        match self {
            Segment::Connect => 1,
            Segment::Answer(true) => 2,
            Segment::Answer(false) => 3,
            Segment::Data(_) => 4,
            Segment::End => 5,
            Segment::Reset => 6,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Segment::Data(data) => data.len() as u64,
            _ => 0,
        }
    }
}

/// A segment on its way from an end of a connection.
struct Flight {
    connection: u64,
    from: usize,
    segment: Segment,
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    arrived: VecDeque<Vec<u8>>,
    /// Bytes read of the first of them.
    offset: usize,
    /// Bytes sent and not read.
    unread: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
    has_ended: bool,
    sent_end: bool,
    is_reset: bool,
    /// What is sent is lost.
    is_eaten: bool,
    /// Nothing overtakes: time of the last segment, ms.
    last_at: u64,
    segments: u64,
}

struct Connection {
    ends: [MachineId; 2],
    /// By the end that sends.
    ways: [Way; 2],
    answer: Option<oneshot::Sender<bool>>,
    address: SocketAddr,
    is_dropped: [bool; 2],
}

struct Ear {
    machine: MachineId,
    accepted: VecDeque<Stream>,
    waker: Option<Waker>,
}

/// State of a directed link.
#[derive(Clone, Copy, Default)]
struct Link {
    /// Reasons to hold what is sent; open at 0.
    blocks: u32,
    /// Added to each delay, ms.
    more_ms: u64,
}

struct State {
    seed: u64,
    conduct: NetConduct,
    now: u64,
    sequence: u64,
    flights: BTreeMap<(u64, u64), Flight>,
    held: Vec<Flight>,
    links: BTreeMap<(MachineId, MachineId), Link>,
    listeners: BTreeMap<SocketAddr, Ear>,
    hosts: BTreeMap<std::net::IpAddr, MachineId>,
    connections: BTreeMap<u64, Connection>,
    connections_made: u64,
    /// Machines without power.
    dark: BTreeSet<MachineId>,
    /// A machine whose process is being ended, and the connections that it leaves.
    ending: Option<(MachineId, Vec<Flight>)>,
    /// Until when a machine's output is held back, because it was paused in the middle of its turn.
    silent_until: BTreeMap<MachineId, u64>,
    trace: Trace,
    wakers: Vec<Waker>,
}

/// The network of a run. Clones share it.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>);

impl State {
    fn draw(&self, purpose: &str, connection: u64, count: u64) -> u64 {
        mix(mix(mix(self.seed, hash(purpose)), connection), count)
    }

    fn link(&self, from: MachineId, to: MachineId) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Sends a segment, or holds it.
    fn send(&mut self, flight: Flight) {
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

    fn schedule(&mut self, flight: Flight, from: MachineId, to: MachineId) {
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

    fn deliver(&mut self, flight: Flight) {
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
                    // The caller may have given up.
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

    fn accept(&mut self, id: u64) {
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

    /// Sends what is held and may go now, in its order.
    fn release(&mut self) {
        for flight in std::mem::take(&mut self.held) {
            self.send(flight);
        }
    }
}

impl Net {
    /// A network in which everybody reaches everybody.
    pub fn new(seed: u64, conduct: NetConduct, trace: Trace) -> Net {
        Net(Arc::new(Mutex::new(State {
            seed,
            conduct,
            now: 0,
            sequence: 0,
            flights: BTreeMap::new(),
            held: Vec::new(),
            links: BTreeMap::new(),
            listeners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            dark: BTreeSet::new(),
            ending: None,
            silent_until: BTreeMap::new(),
            trace,
            wakers: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Gives a machine an address.
    pub fn add_host(&self, address: SocketAddr, machine: MachineId) {
        self.lock().hosts.insert(address.ip(), machine);
    }

    /// Writes to the trace.
    pub fn with_trace<T>(&self, write: impl FnOnce(u64, &mut Trace) -> T) -> T {
        let mut state = self.lock();
        let now = state.now;
        write(now, &mut state.trace)
    }

    /// Delivers what is due at this time (ms).
    pub fn advance(&self, now: u64) {
        let mut state = self.lock();
        state.now = now;
        while let Some(first) = state.flights.first_entry() {
            if first.key().0 > now {
                break;
            }
            let flight = first.remove();
            state.deliver(flight);
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Holds what is sent from one machine to another, once more.
    pub fn block(&self, from: MachineId, to: MachineId) {
        self.lock().links.entry((from, to)).or_default().blocks += 1;
    }

    /// Takes a block back.
    pub fn unblock(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock();
        let link = state.links.entry((from, to)).or_default();
        link.blocks = link.blocks.saturating_sub(1);
        state.release();
    }

    /// Makes a link slower by so many milliseconds.
    pub fn set_slow(&self, from: MachineId, to: MachineId, more_ms: u64) {
        self.lock().links.entry((from, to)).or_default().more_ms = more_ms;
    }

    /// Resets all connections of a machine, or of two machines with each other.
    pub fn reset(&self, machine: MachineId, other: Option<MachineId>) {
        let mut state = self.lock();
        let between = |ends: &[MachineId; 2]| {
            ends.contains(&machine) && other.is_none_or(|other| ends.contains(&other))
        };
        let all = state.connections.iter().filter(|(_, c)| between(&c.ends));
        let all: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in all {
            // It reaches each end at a time of its own.
            for from in [0, 1] {
                state.send(Flight {
                    connection: id,
                    from,
                    segment: Segment::Reset,
                });
            }
        }
    }

    /// Loses from now on what one end of the connections between two machines sends; tells neither.
    pub fn eat(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock();
        for connection in state.connections.values_mut() {
            if let Some(end) =
                (0..2).find(|end| connection.ends[*end] == from && connection.ends[1 - end] == to)
            {
                connection.ways[end].is_eaten = true;
            }
        }
    }

    /// Holds back what a machine sends until then, as it was stopped in the middle of its turn.
    pub fn silence(&self, machine: MachineId, until: u64) {
        self.lock().silent_until.insert(machine, until);
    }

    /// Opens all links, at their usual speed.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.links.clear();
        state.release();
    }

    /// Ends the process of a machine by `end`, and then closes its connections in their order. tokio drops the
    /// tasks of a runtime in an order that depends on the tasks of other runtimes.
    pub fn end_process(&self, machine: MachineId, end: impl FnOnce()) {
        self.lock().ending = Some((machine, Vec::new()));
        end();
        let mut state = self.lock();
        let left = state.ending.take().map_or_else(Vec::new, |(_, left)| left);
        let mut left: Vec<Flight> = left;
        left.sort_by_key(|flight| (flight.connection, flight.from));
        for flight in left {
            state.send(flight);
        }
    }

    /// Takes the power of a machine: nothing more is heard of it.
    pub fn power_off(&self, machine: MachineId) {
        let mut state = self.lock();
        state.dark.insert(machine);
        state.listeners.retain(|_, ear| ear.machine != machine);
    }

    /// Gives a machine its power back: what comes by connections of before is answered by a reset.
    pub fn power_on(&self, machine: MachineId) {
        let mut state = self.lock();
        state.dark.remove(&machine);
        let end_of = |c: &Connection| c.ends.iter().position(|end| *end == machine);
        let old: Vec<(u64, usize)> = state
            .connections
            .iter()
            .filter_map(|(id, c)| Some((*id, end_of(c)?)))
            .collect();
        for (connection, from) in old {
            state.send(Flight {
                connection,
                from,
                segment: Segment::Reset,
            });
        }
    }
}

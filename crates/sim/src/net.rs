//! The network: TCP connections whose bytes lie in one queue, ordered by time.
//!
//! Each direction of a connection delivers in order. A blocked link *holds* what is sent over it,
//! as retransmission does, and delivers it late once it is open again.

mod state;
mod stream;
mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};

use crate::trace::Trace;
use state::{Connection, Flight, Segment, State};

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

/// The network of a run. Clones share it.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>);

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

    /// Ends the process of a machine by `end`, and then closes its connections in their order.
    /// tokio drops the tasks of a runtime in an order that depends on the tasks of other runtimes.
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

//! Simulated network: TCP connections whose segments wait in one queue, ordered by time.
//!
//! Each direction of a connection delivers in order. A blocked link *holds* its segments, as
//! retransmission does, and delivers them late after it is open again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};

use super::network_conditions::{MachineId, NetworkConditions};
use super::network_state::{InFlightSegment, NetworkState, SimConnection, TcpSegment};
use crate::event_trace::EventTrace;

/// Network of a run. Clones share it.
#[derive(Clone)]
pub struct SimNetwork(Arc<Mutex<NetworkState>>);

impl SimNetwork {
    /// Creates a network without faults.
    pub fn new(seed: u64, conditions: NetworkConditions, trace: EventTrace) -> SimNetwork {
        SimNetwork(Arc::new(Mutex::new(NetworkState {
            seed,
            conditions,
            now_ms: 0,
            scheduled_count: 0,
            in_flight: BTreeMap::new(),
            held_segments: Vec::new(),
            links: BTreeMap::new(),
            listeners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            powered_off: BTreeSet::new(),
            ending_process: None,
            output_delayed_until: BTreeMap::new(),
            trace,
            wakers: Vec::new(),
        })))
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock()
    }

    /// Assigns an address to a machine.
    pub fn add_host(&self, address: SocketAddr, machine: MachineId) {
        self.lock_state().hosts.insert(address.ip(), machine);
    }

    /// Calls `write` with the time and the trace.
    pub fn with_trace<T>(&self, write: impl FnOnce(u64, &mut EventTrace) -> T) -> T {
        let mut state = self.lock_state();
        let now = state.now_ms;
        write(now, &mut state.trace)
    }

    /// Sets the time (ms) and delivers all segments that are due.
    pub fn deliver_due(&self, now: u64) {
        let mut state = self.lock_state();
        state.now_ms = now;
        while let Some(first) = state.in_flight.first_entry() {
            if first.key().0 > now {
                break;
            }
            let segment_in_flight = first.remove();
            state.deliver_segment(segment_in_flight);
        }
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Blocks a link: segments from one machine to another are held. Blocks add up.
    pub fn block_link(&self, from: MachineId, to: MachineId) {
        self.lock_state()
            .links
            .entry((from, to))
            .or_default()
            .block_count += 1;
    }

    /// Removes one block of a link.
    pub fn unblock_link(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock_state();
        let link = state.links.entry((from, to)).or_default();
        link.block_count = link.block_count.saturating_sub(1);
        state.send_held();
    }

    /// Adds `more_ms` to each delay of a link.
    pub fn set_link_delay(&self, from: MachineId, to: MachineId, more_ms: u64) {
        self.lock_state()
            .links
            .entry((from, to))
            .or_default()
            .more_ms = more_ms;
    }

    /// Resets all connections of a machine, or of two machines with each other.
    pub fn reset_connections(&self, machine: MachineId, other: Option<MachineId>) {
        let mut state = self.lock_state();
        let between = |ends: &[MachineId; 2]| {
            ends.contains(&machine) && other.is_none_or(|other| ends.contains(&other))
        };
        let all = state.connections.iter().filter(|(_, c)| between(&c.ends));
        let all: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in all {
            // The reset reaches each end at a different time.
            for from in [0, 1] {
                state.send_or_hold(InFlightSegment {
                    connection: id,
                    from,
                    segment: TcpSegment::Reset,
                });
            }
        }
    }

    /// Discards, from now on, everything that `from` sends over its connections to `to`. Neither
    /// end receives an error.
    pub fn discard_sent(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock_state();
        for connection in state.connections.values_mut() {
            if let Some(end) =
                (0..2).find(|end| connection.ends[*end] == from && connection.ends[1 - end] == to)
            {
                connection.directions[end].is_discarding = true;
            }
        }
    }

    /// Delays what a machine sends until a time (ms), because its process was stopped in its turn.
    pub fn delay_output_until(&self, machine: MachineId, until: u64) {
        self.lock_state()
            .output_delayed_until
            .insert(machine, until);
    }

    /// Removes all blocks and added delays.
    pub fn clear_link_faults(&self) {
        let mut state = self.lock_state();
        state.links.clear();
        state.send_held();
    }

    /// Ends the process of a machine by calling `end`, then closes its connections in a fixed
    /// order.
    ///
    /// tokio drops the tasks of a runtime in an order that depends on the tasks of other runtimes.
    pub fn end_process(&self, machine: MachineId, end: impl FnOnce()) {
        self.lock_state().ending_process = Some((machine, Vec::new()));
        end();
        let mut state = self.lock_state();
        let mut closing_segments = state
            .ending_process
            .take()
            .map_or_else(Vec::new, |(_, segments)| segments);
        closing_segments.sort_by_key(|segment| (segment.connection, segment.from));
        for segment in closing_segments {
            state.send_or_hold(segment);
        }
    }

    /// Cuts the power of a machine: it sends and receives nothing.
    pub fn power_off(&self, machine: MachineId) {
        let mut state = self.lock_state();
        state.powered_off.insert(machine);
        state.listeners.retain(|_, queue| queue.machine != machine);
    }

    /// Restores the power of a machine: it resets the connections from before the cut.
    pub fn power_on(&self, machine: MachineId) {
        let mut state = self.lock_state();
        state.powered_off.remove(&machine);
        let end_of = |c: &SimConnection| c.ends.iter().position(|end| *end == machine);
        let old: Vec<(u64, usize)> = state
            .connections
            .iter()
            .filter_map(|(id, c)| Some((*id, end_of(c)?)))
            .collect();
        for (connection, from) in old {
            state.send_or_hold(InFlightSegment {
                connection,
                from,
                segment: TcpSegment::Reset,
            });
        }
    }
}

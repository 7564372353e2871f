//! State of the network: connections, links, and segments in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;

use seqsvr_core::sim::{hash_text, mix_bits};
use seqsvr_net::PeerCertificate;
use tokio::sync::oneshot;

use super::network_conditions::{MachineId, NetworkConditions};
use crate::event_trace::EventTrace;

/// Segment of one direction of a connection.
pub(super) enum TcpSegment {
    Connect,
    Answer(bool),
    Data(Vec<u8>),
    End,
    Reset,
}

impl TcpSegment {
    pub(super) fn trace_code(&self) -> u64 {
        match self {
            TcpSegment::Connect => 1,
            TcpSegment::Answer(true) => 2,
            TcpSegment::Answer(false) => 3,
            TcpSegment::Data(_) => 4,
            TcpSegment::End => 5,
            TcpSegment::Reset => 6,
        }
    }

    pub(super) fn data_len(&self) -> u64 {
        match self {
            TcpSegment::Data(data) => data.len() as u64,
            _ => 0,
        }
    }
}

/// Segment in flight from one end of a connection.
pub(super) struct InFlightSegment {
    pub(super) connection: u64,
    pub(super) from: usize,
    pub(super) segment: TcpSegment,
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct ConnectionDirection {
    pub(super) unread_segments: VecDeque<Vec<u8>>,
    /// Bytes of the first one that were read.
    pub(super) read_offset: usize,
    /// Bytes that were sent and not read.
    pub(super) unread_bytes: usize,
    pub(super) reader_waker: Option<Waker>,
    pub(super) writer_waker: Option<Waker>,
    pub(super) end_arrived: bool,
    pub(super) sent_end: bool,
    pub(super) is_reset: bool,
    /// Whether the network discards everything that is sent.
    pub(super) is_discarding: bool,
    /// Arrival of the last segment, ms; a later segment does not overtake it.
    pub(super) last_arrival_ms: u64,
    pub(super) segment_count: u64,
}

pub(super) struct SimConnection {
    pub(super) ends: [MachineId; 2],
    /// Directions, by the end that sends.
    pub(super) directions: [ConnectionDirection; 2],
    pub(super) answer: Option<oneshot::Sender<bool>>,
    pub(super) address: SocketAddr,
    /// Certificate of the connecting end; None: a connection without TLS.
    pub(super) certificate: Option<PeerCertificate>,
    pub(super) is_closed: [bool; 2],
}

pub(super) struct AcceptQueue {
    pub(super) machine: MachineId,
    /// Connections that were not accepted yet.
    pub(super) unaccepted: VecDeque<u64>,
    pub(super) waker: Option<Waker>,
}

/// State of a directed link.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkState {
    /// Number of blocks; the link is open at 0.
    pub(super) block_count: u32,
    /// Delay added to each segment, ms.
    pub(super) more_ms: u64,
}

pub(super) struct NetworkState {
    pub(super) seed: u64,
    pub(super) conditions: NetworkConditions,
    pub(super) now_ms: u64,
    pub(super) scheduled_count: u64,
    pub(super) in_flight: BTreeMap<(u64, u64), InFlightSegment>,
    pub(super) held_segments: Vec<InFlightSegment>,
    pub(super) links: BTreeMap<(MachineId, MachineId), LinkState>,
    pub(super) listeners: BTreeMap<SocketAddr, AcceptQueue>,
    pub(super) hosts: BTreeMap<std::net::IpAddr, MachineId>,
    pub(super) connections: BTreeMap<u64, SimConnection>,
    pub(super) connections_made: u64,
    /// Machines without power.
    pub(super) powered_off: BTreeSet<MachineId>,
    /// Machine whose process is ending, and the segments that close its connections.
    pub(super) ending_process: Option<(MachineId, Vec<InFlightSegment>)>,
    /// Time until which a machine's output is delayed, because its process was stopped in its turn.
    pub(super) output_delayed_until: BTreeMap<MachineId, u64>,
    pub(super) trace: EventTrace,
    pub(super) wakers: Vec<Waker>,
}

impl NetworkState {
    pub(super) fn draw_number(&self, purpose: &str, connection: u64, count: u64) -> u64 {
        mix_bits(
            mix_bits(mix_bits(self.seed, hash_text(purpose)), connection),
            count,
        )
    }

    pub(super) fn link_state(&self, from: MachineId, to: MachineId) -> LinkState {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Sends a segment, or holds it if its link is blocked.
    pub(super) fn send_or_hold(&mut self, segment_in_flight: InFlightSegment) {
        let Some(connection) = self.connections.get(&segment_in_flight.connection) else {
            return;
        };
        let (from, to) = (
            connection.ends[segment_in_flight.from],
            connection.ends[1 - segment_in_flight.from],
        );
        if self.powered_off.contains(&from) {
            return;
        }
        if self.link_state(from, to).block_count > 0 {
            self.held_segments.push(segment_in_flight);
            return;
        }
        self.schedule_arrival(segment_in_flight, from, to);
    }

    pub(super) fn schedule_arrival(
        &mut self,
        segment_in_flight: InFlightSegment,
        from: MachineId,
        to: MachineId,
    ) {
        let (conditions, link) = (self.conditions, self.link_state(from, to));
        let Some(connection) = self.connections.get(&segment_in_flight.connection) else {
            return;
        };
        let direction = &connection.directions[segment_in_flight.from];
        let draw = |purpose| {
            let count = 2 * direction.segment_count + segment_in_flight.from as u64;
            self.draw_number(purpose, segment_in_flight.connection, count)
        };
        let spread = conditions.delay_max_ms - conditions.delay_min_ms + 1;
        let mut delay = conditions.delay_min_ms + draw("delay") % spread;
        if draw("slow") % 1_000 < conditions.slow_per_mille {
            delay *= 10;
        }
        let sent = self
            .output_delayed_until
            .get(&from)
            .map_or(self.now_ms, |until| self.now_ms.max(*until));
        let at = (sent + delay + link.more_ms).max(direction.last_arrival_ms);
        if let Some(connection) = self.connections.get_mut(&segment_in_flight.connection) {
            let direction = &mut connection.directions[segment_in_flight.from];
            direction.last_arrival_ms = at;
            direction.segment_count += 1;
        }
        self.scheduled_count += 1;
        self.in_flight
            .insert((at, self.scheduled_count), segment_in_flight);
    }

    pub(super) fn deliver_segment(&mut self, segment_in_flight: InFlightSegment) {
        let InFlightSegment {
            connection: id,
            from: end,
            segment,
        } = segment_in_flight;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let (from, to) = (connection.ends[end], connection.ends[1 - end]);
        let numbers = [1, id, end as u64, segment.trace_code(), segment.data_len()];
        let now = self.now_ms;
        self.trace.record_event(now, &numbers, || {
            format!(
                "net {id} {from}->{to} {} {}",
                segment.trace_code(),
                segment.data_len()
            )
        });
        if self.powered_off.contains(&to) || connection.directions[end].is_discarding {
            return;
        }
        match segment {
            TcpSegment::Connect => self.accept_connection(id),
            TcpSegment::Answer(accepted) => {
                if let Some(answer) = connection.answer.take() {
                    // The caller may have stopped waiting.
                    let _ = answer.send(accepted);
                }
            }
            TcpSegment::Data(data) => {
                if connection.is_closed[1 - end] {
                    self.send_or_hold(InFlightSegment {
                        connection: id,
                        from: 1 - end,
                        segment: TcpSegment::Reset,
                    });
                    return;
                }
                let direction = &mut connection.directions[end];
                direction.unread_segments.push_back(data);
                self.wakers.extend(direction.reader_waker.take());
            }
            TcpSegment::End => {
                let direction = &mut connection.directions[end];
                direction.end_arrived = true;
                self.wakers.extend(direction.reader_waker.take());
            }
            TcpSegment::Reset => {
                for direction in &mut connection.directions {
                    direction.is_reset = true;
                    self.wakers.extend(direction.reader_waker.take());
                    self.wakers.extend(direction.writer_waker.take());
                }
            }
        }
    }

    pub(super) fn accept_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let accepted = match self.listeners.get_mut(&connection.address) {
            Some(queue) => {
                connection.ends[1] = queue.machine;
                queue.unaccepted.push_back(id);
                self.wakers.extend(queue.waker.take());
                true
            }
            None => false,
        };
        self.send_or_hold(InFlightSegment {
            connection: id,
            from: 1,
            segment: TcpSegment::Answer(accepted),
        });
    }

    /// Sends, in order, the held segments whose links are open now.
    pub(super) fn send_held(&mut self) {
        for segment_in_flight in std::mem::take(&mut self.held_segments) {
            self.send_or_hold(segment_in_flight);
        }
    }
}
